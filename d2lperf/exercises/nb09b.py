"""Checkers of notebook 09b, parameter servers.

They check numbers, places and sums. Nothing is timed.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
import torch

from d2lperf.exercises import Feedback, checker, failed, gave, passed, show
from d2lperf.exercises.values import as_list, as_whole, close, off

__all__ = ["check_compress", "check_homes", "check_oldest", "check_without_slowest"]


# --------------------------------------------------------------------------- without_slowest


@checker
def check_without_slowest(without_slowest: Callable[[list[list[float]], int], float]) -> Feedback:
    """Check how long synchronous steps take that do not wait for the slowest workers.

    Args:
        without_slowest: function of seconds by worker and step, and of the number of workers that
            a step does not wait for, that returns seconds.
    """
    two = [[1.0, 5.0, 1.0], [2.0, 1.0, 1.0]]
    four = [[1.0, 9.0, 2.0], [8.0, 1.0, 2.0], [3.0, 2.0, 7.0], [2.0, 3.0, 2.0]]
    cases = [
        ("all are waited for", two, 0, 8.0),
        ("one of two is not waited for", two, 1, 3.0),
        ("all of four are waited for", four, 0, 24.0),
        ("each step leaves out its own slowest", four, 1, 8.0),
        ("two are left out", four, 2, 6.0),
        ("only the quickest counts", four, 3, 4.0),
    ]
    for what, pauses, spare, wanted in cases:
        found = without_slowest([list(row) for row in pauses], spare)
        if not close(found, wanted):
            call = gave(found, without_slowest, pauses, spare)
            return failed(f"{what}: {call}, {off(found, wanted)}")
    return passed("Whoever is slowest in a step, nobody waits for them.")


# ------------------------------------------------------------------------------------- homes


@checker
def check_homes(homes: Callable[[int, list[str], int], Sequence[str]]) -> Feedback:
    """Check on which servers a key is kept.

    Args:
        homes: function of a key, the names of the servers and the number of copies that returns
            the names of as many different servers.
    """
    for copies in (1, 2, 5):
        found = homes(7, list(_SERVERS), copies)
        problem = _wrong_names(found, copies)
        if problem:
            return failed(f"{gave(found, homes, 7, _SERVERS, copies)}; {problem}")
    before = _kept(homes, _SERVERS)
    problem = _disagreement(homes, before) or _uneven(before)
    for lost in _SERVERS:
        problem = problem or _moved(homes, before, lost)
    if problem:
        return failed(problem)
    return passed("A lost server moves its own keys, and their other copies stay where they are.")


_SERVERS = [f"server {name}" for name in "abcde"]
_KEYS = range(2000)


def _kept(homes: Callable, servers: Sequence[str]) -> dict[int, set[str]]:
    """The servers of each key, with two copies."""
    return {key: set(homes(key, list(servers), 2)) for key in _KEYS}


def _wrong_names(found: Any, copies: int) -> str:
    """What is wrong with the servers of one key; "" where nothing is."""
    names = as_list(found)
    if names is None or len(names) != copies:
        return "wanted is a list of as many servers as copies"
    if not set(names) <= set(_SERVERS):
        return "some of these are not among the servers"
    if len(set(names)) < copies:
        return "the copies of a key must be on different servers"
    return ""


def _disagreement(homes: Callable, before: dict[int, set[str]]) -> str:
    """Why two workers would look for a key on different servers; "" where they do not."""
    for key, again in _kept(homes, _SERVERS).items():
        if again != before[key]:
            return f"asked twice, key {key} is on {sorted(before[key])} and on {sorted(again)}"
    shuffled = random.Random(0).sample(_SERVERS, len(_SERVERS))
    for key, others in _kept(homes, shuffled).items():
        if others != before[key]:
            return (
                f"key {key} is on {sorted(before[key])}, but with the servers in another order on "
                f"{sorted(others)}: workers would disagree"
            )
    keys = list(_KEYS[:50])
    for key, names in zip(keys, _in_another_process(homes, keys)):
        if set(names) != before[key]:
            return (
                f"key {key} is on {sorted(before[key])}, but in another process on "
                f"{sorted(names)}: workers would disagree"
            )
    return ""


_ASK = """
import json, sys
import cloudpickle
homes, keys, servers = cloudpickle.loads(sys.stdin.buffer.read())
print(json.dumps([list(homes(key, list(servers), 2)) for key in keys]))
"""


def _in_another_process(homes: Callable, keys: Sequence[int]) -> list[list[str]]:
    """What the function returns in a process whose `hash` of texts differs from this one's."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", _ASK],
        input=cloudpickle.dumps((homes, keys, _SERVERS)),
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
        capture_output=True,
        check=False,
        timeout=60,
    )
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise AssertionError(f"in a new process it raises {''.join(last)}")
    return json.loads(done.stdout)


def _uneven(before: dict[int, set[str]]) -> str:
    """Which server has far more or fewer copies than its share; "" where none has."""
    shares = Counter(server for found in before.values() for server in found)
    mean = 2 * len(_KEYS) / len(_SERVERS)
    for server in _SERVERS:
        if not 0.7 * mean < shares[server] < 1.3 * mean:
            return (
                f"{server} has {shares[server]} of {2 * len(_KEYS)} copies on {len(_SERVERS)} "
                "servers: not about equally many"
            )
    return ""


def _moved(homes: Callable, before: dict[int, set[str]], lost: str) -> str:
    """What is wrong after a server is lost; "" where nothing is."""
    after = _kept(homes, [server for server in _SERVERS if server != lost])
    stayed = [key for key in _KEYS if lost not in before[key]]
    moved = [key for key in stayed if after[key] != before[key]]
    forgotten = [key for key in _KEYS if not before[key] - {lost} <= after[key]]
    for key in moved[:1] or forgotten[:1]:
        told = f"{lost} is lost; key {key} moves from {sorted(before[key])} to {sorted(after[key])}"
        if moved:
            return (
                f"{told}, and so do {len(moved)} of {len(stayed)} keys that it never had: only its "
                "own keys may"
            )
        return f"{told}, although its other copy still exists"
    return ""


# ---------------------------------------------------------------------------------- compress


@checker
def check_compress(compress: Callable[..., tuple]) -> Feedback:
    """Check that the largest entries are sent, and that nothing is lost.

    Args:
        compress: function of a gradient, of what was left and of k that returns places and values
            of the k largest entries, and what is left now.
    """
    cases = [
        ([5.0, 1.0, 2.0], [0.0, 0.0, 0.0], 1),
        ([1.0, -7.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0], 2),
        ([1.0, 2.0, 3.0], [4.0, 0.0, 0.0], 1),
        ([1.0, -2.0, 3.0, 0.0, 1.0], [0.0, -6.0, -3.0, 0.0, 0.0], 2),
        ([4.0, 3.0], [1.0, 1.0], 2),
    ]
    for gradient, left, k in cases:
        given = torch.tensor(gradient), torch.tensor(left)
        call, total = f"compress({gradient}, {left}, {k})", given[0] + given[1]
        found = compress(*given, k)
        parts = as_list(found, 3)
        if parts is None:
            return failed(f"{call} gave {show(found)}; wanted are (places, values, left)")
        if given[0].tolist() != gradient or given[1].tolist() != left:
            return failed(
                f"{call} changes its arguments to {given[0].tolist()} and {given[1].tolist()}"
            )
        sizes = [torch.as_tensor(x).shape for x in parts]
        if sizes != [(k,), (k,), (len(gradient),)]:
            text = f"wanted are {k} places, {k} values and {len(gradient)} numbers left"
            return failed(
                f"{call}: {text}, but got shapes {', '.join(map(str, map(tuple, sizes)))}"
            )
        places, values, rest = (torch.as_tensor(x) for x in parts)
        told = f"{call} gave {places.tolist()}, {values.tolist()}, {rest.tolist()}"
        sent = torch.zeros(len(gradient))
        sent[places] = values.to(sent.dtype)
        if not torch.equal(sent + rest, total):
            return failed(f"{told}: what is sent and what is left are not gradient + left")
        wanted = total.abs().topk(k).values.sum()
        if sent.abs().sum() != wanted:
            return failed(f"{told}: of {total.tolist()}, these are not the {k} largest")
        if rest[places].any():
            return failed(f"{told}: a part of an entry that was sent is left")
    return passed("The largest entries are sent; what is left is sent later.")


# ------------------------------------------------------------------------------------ oldest


@checker
def check_oldest(oldest: Callable[[float, float], int]) -> Feedback:
    """Check which age of a gradient a rate bears.

    Args:
        oldest: function of a rate and a curvature that returns the largest age, or -1.
    """
    cases = [(1.0, 1.5), (0.4, 1.0), (0.1, 3.0), (2.0, 1.5), (0.7, 0.9), (0.01, 1.0), (0.25, 2.4)]
    cases += [(1.0, 1.02), (0.311, 2.0), (2.0, 1.0)]  # near a bound, or on it
    for rate, curvature in cases:
        found = oldest(rate, curvature)
        call, age = gave(found, oldest, rate, curvature), as_whole(found)
        if age is None or age < -1:
            return failed(f"{call}; wanted is a whole number from -1 on")
        if age >= 0 and not _dies_out(rate * curvature, age):
            return failed(f"{call}, but with this age the swings of one weight grow")
        if _dies_out(rate * curvature, age + 1):
            return failed(f"{call}, but a greater age is borne, too")
    return passed("Half of the rate bears about twice the age.")


def _dies_out(product: float, age: int) -> bool:
    """Whether one weight goes to zero, by its own steps and not by the formula."""
    pushes = 400 * (age + 1)
    x = [1.0]
    for t in range(pushes):
        x.append(x[-1] - product * x[max(0, t - age)])
        if abs(x[-1]) > 1e6:
            return False
    span = 8 * (age + 1)
    return max(map(abs, x[-span:])) < max(map(abs, x[span : 2 * span]))
