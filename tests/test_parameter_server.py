"""The all-reduces of notebook 09 and the key-value store of 09b, as they show them, under faults.

Nothing may hang, and nothing may be lost or counted twice: every fault ends in an error. The code
comes from the notebooks' own cells (benchmarks/shown.py).
"""

import math
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial

import collectives
import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from racing import in_threads
from shown import shown

from d2lperf import LaunchTimeout, WorkerError, launch

WAYS = shown(
    "09-collectives",
    *("Wire", "others", "finish", "servers", "every_worker_serves"),
    *("reduce_scatter", "all_gather", "ring"),
)
CODE = shown(
    "09b-parameter-servers",
    *("Table", "push", "pull", "check", "wait_while"),
    *("serve", "start_server", "ask", "Store", "connect"),
)
PROMPT_S = 5  # "at once", on a busy machine
LONG_S = 60  # a patience that nobody should have to use up


def table(workers=2, **options):
    options = {"lr": -1.0, "patience_s": LONG_S, **options}  # lr -1: the value is the sum
    return CODE.Table({0: np.zeros(3, np.float32), 1: np.zeros(2, np.float32)}, workers, **options)


def stores(table, workers=2, timeout_s=LONG_S):
    address = CODE.start_server(table)
    return [CODE.Store([address], rank, timeout_s) for rank in range(workers)]


def vector(*numbers):
    return torch.tensor(numbers, dtype=torch.float32)


def meaning(code):
    """What a function does, without the file that it comes from."""
    constants = [meaning(c) if hasattr(c, "co_code") else c for c in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, constants


@pytest.mark.parametrize(
    ("study", "names"),
    [
        (
            "deeper/09-slow-network",
            ("others", "finish", "servers", "reduce_scatter", "all_gather", "ring"),
        ),
        ("deeper/09-trees", ("finish", "reduce_scatter", "all_gather", "ring")),
        (
            "deeper/09-topology",
            ("others", "finish", "servers", "reduce_scatter", "all_gather", "ring"),
        ),
    ],
)
def test_a_study_repeats_the_notebooks_code_unchanged(study, names):
    copies = shown(study, *names)
    for name in names:
        assert meaning(getattr(WAYS, name).__code__) == meaning(getattr(copies, name).__code__)


def at_once(call):
    """The error of a call, which must not take long."""
    begin = time.monotonic()
    with pytest.raises((ConnectionError, TimeoutError)) as caught:
        call()
    assert time.monotonic() - begin < PROMPT_S
    return str(caught.value)


def wait_for(condition):
    end = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.001)


# ----------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "key, gradient, error",
    [
        (7, vector(1, 2, 3), KeyError),
        (0, vector(1, 2), ValueError),
        (0, torch.ones(3, dtype=torch.float64), ValueError),
        (0, torch.ones(3, 1), ValueError),
        (0, vector(1, math.nan, 2), ValueError),
        (1, vector(math.inf, 0), ValueError),
    ],
)
def test_a_push_that_does_not_fit_is_refused_and_changes_nothing(key, gradient, error):
    shelf = table(staleness=1)
    store, other = stores(shelf)
    with pytest.raises(error):
        store.push(key, gradient)
    assert not any(value.any() for value in shelf.values.values())
    assert not any(map(any, shelf.pushes.values()))
    # the connection is as good as before, and so is the other worker's
    other.push(0, vector(1, 2, 3))
    store.push(0, vector(1, 1, 1))
    assert store.pull(0).tolist() == [2, 3, 4]


def test_an_unknown_key_cannot_be_pulled():
    store, _ = stores(table())
    with pytest.raises(KeyError):
        store.pull(7)


# ------------------------------------------------------------------- two workers and one key

ORDERS = st.integers(1, 3).flatmap(
    lambda workers: st.tuples(
        st.just(workers),
        st.sampled_from([0, 1, 2, math.inf]),
        st.lists(st.tuples(st.integers(0, workers - 1), st.booleans()), max_size=30),
    )
)


@given(ORDERS)
@settings(deadline=None)
def test_the_sum_is_exact_in_every_order_of_arrival(case):
    workers, staleness, events = case
    shelf = table(workers, staleness=staleness, patience_s=0)
    pushed = [[] for _ in range(workers)]
    for number, (rank, is_push) in enumerate(events):
        if is_push:
            gradient = np.array([1, number, number**2], np.float32)
            CODE.push(shelf, rank, 0, gradient)
            pushed[rank].append(gradient)
        counts = [len(gradients) for gradients in pushed]
        # synchronous: whole rounds only; otherwise everything that has arrived
        used = [g for own in pushed for g in (own if staleness else own[: min(counts)])]
        wanted = np.sum(used, axis=0) if used else np.zeros(3)
        assert (shelf.values[0] == wanted).all()
        if not is_push:
            if min(counts) >= counts[rank] - staleness:
                assert (CODE.pull(shelf, rank, 0) == wanted).all()
            else:
                with pytest.raises(TimeoutError):
                    CODE.pull(shelf, rank, 0)


@pytest.mark.parametrize("staleness", [0, 1, math.inf])
def test_nothing_is_lost_when_workers_race(staleness):
    shelf, count = table(staleness=staleness), 200
    start = threading.Barrier(2)

    def work(store, number):
        start.wait()
        for i in range(count):
            store.push(0, vector(1, number, i))

    in_threads(*(partial(work, store, 10**i) for i, store in enumerate(stores(shelf))))
    assert shelf.values[0].tolist() == [2 * count, 11 * count, count * (count - 1)]
    assert shelf.pushes[0] == [count, count]


def test_what_was_pulled_does_not_change():
    (store,) = stores(table(1), 1)
    before = store.pull(0)
    store.push(0, vector(1, 1, 1))
    assert before.tolist() == [0, 0, 0] and store.pull(0).tolist() == [1, 1, 1]


# ------------------------------------------------------------------------------- what ends early


def test_a_pull_waits_no_longer_than_its_patience():
    store, _ = stores(table(patience_s=0.1))
    store.push(0, vector(1, 1, 1))
    assert "{1}" in at_once(lambda: store.pull(0))
    assert store.pull(1).tolist() == [0, 0], "the connection is as good as before"


@pytest.mark.parametrize("staleness, stops", [(0, True), (math.inf, False)])
def test_a_worker_that_dies_during_a_push(staleness, stops):
    """A process of its own sends half of a push, and is killed."""
    shelf = table(staleness=staleness)
    address = CODE.start_server(shelf)
    message = pickle.dumps(("push", 0, np.full(3, 9, np.float32)))
    script = f"""
import os, pickle, signal, socket
connection = socket.create_connection({address!r})
connection.sendall(pickle.dumps(1) + {message[: len(message) // 2]!r})
os.kill(os.getpid(), signal.SIGKILL)
"""
    store = CODE.Store([address], 0, LONG_S)
    store.push(0, vector(1, 2, 3))
    killed = subprocess.run([sys.executable, "-c", script], timeout=LONG_S)
    assert killed.returncode == -signal.SIGKILL
    wait_for(lambda: shelf.gone == {1})
    assert shelf.pushes[0] == [1, 0], "half a push is none"
    if stops:
        assert "gone: {1}" in at_once(lambda: store.pull(0))
        assert shelf.values[0].tolist() == [0, 0, 0]
    else:  # nobody waits for it
        assert store.pull(0).tolist() == [1, 2, 3]


def test_a_pull_that_is_waiting_hears_of_the_death():
    shelf = table()
    store, other = stores(shelf)
    store.push(0, vector(1, 1, 1))
    errors = []
    waiting = threading.Thread(target=lambda: errors.append(at_once(lambda: store.pull(0))))
    waiting.start()
    other.links[0].close()
    waiting.join(LONG_S)
    assert "gone: {1}" in errors[0]


class Listener:
    """What a worker sees of a server that takes a message and then does something else."""

    def __init__(self, then):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.then = then
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        self.connection, _ = self.listener.accept()
        if self.then is not None:
            with self.connection, self.connection.makefile("rwb") as link:
                pickle.load(link), pickle.load(link)
                link.write(self.then)

    def store(self, timeout_s):
        return CODE.Store([self.listener.getsockname()], 0, timeout_s)


@pytest.mark.parametrize("answered", [0.0, 0.5, 0.999])
def test_a_server_that_dies_during_a_pull(answered):
    answer = pickle.dumps(np.zeros(100_000, np.float32))
    server = Listener(answer[: int(answered * len(answer))])
    assert "pull" in at_once(lambda: server.store(LONG_S).pull(0))


def test_a_server_that_was_killed():
    """The server is in a process of its own; the worker waits in a pull."""

    def work():
        store = CODE.connect([torch.zeros(3)], lr=1.0)
        if dist.get_rank() == 0:  # the server is here
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGKILL)
        store.push(0, torch.ones(3))
        store.pull(0)

    begin = time.monotonic()
    with pytest.raises((WorkerError, ConnectionError)) as caught:
        launch(work, 2, backend="gloo", timeout_s=LONG_S)
    assert not isinstance(caught.value, LaunchTimeout)
    assert time.monotonic() - begin < LONG_S / 2


def test_a_silent_server_ends_in_an_error():
    store = Listener(None).store(timeout_s=0.2)
    at_once(lambda: store.pull(0))
    # what the server may say later must not be taken for the answer to another question
    at_once(lambda: store.pull(1))


def test_a_server_that_does_not_read_ends_a_large_push_in_an_error():
    store = Listener(None).store(timeout_s=0.2)
    at_once(lambda: store.push(0, torch.zeros(16_000_000)))


def test_a_server_that_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = closed.getsockname()
    at_once(lambda: CODE.Store([address], 0, 1))


# --------------------------------------------------------------------------------- all-reduces


@pytest.mark.parametrize("workers, size", [(1, 5), (2, 0), (2, 5), (3, 2), (4, 103)])
def test_all_reduces_give_every_worker_the_sum(workers, size):
    def work():
        torch.manual_seed(dist.get_rank())
        own, n, sums = torch.randn(size, dtype=torch.float64), dist.get_world_size(), []
        for way in (WAYS.servers, partial(WAYS.servers, m=n), WAYS.ring):
            sums.append(own.clone())
            way(sums[-1], WAYS.Wire())
        return own, sums

    by_rank = launch(work, workers, backend="gloo", threads=1)
    wanted = sum(own for own, _ in by_rank)
    for _, sums in by_rank:
        for found, of_rank_0 in zip(sums, by_rank[0][1]):
            assert torch.equal(found, of_rank_0), "the same on all workers"
            assert torch.allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_the_benchmark_prints_a_row_for_each_way(monkeypatch, capsys):
    arguments = ["collectives", "--workers", "2", "--mib", "0", "--launches", "1"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert collectives.main() == 0
    *rows, last = [line.split(" | ")[0] for line in capsys.readouterr().out.splitlines()]
    assert rows[2:] == ["| one server", "| every worker serves", "| ring", "| library"]
    assert last.startswith("* not checked: the targets are for 4 workers")
    monkeypatch.setattr(sys, "argv", [*arguments, "--check"])
    assert collectives.main() == 1, "nothing was checked"
