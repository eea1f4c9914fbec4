"""Neighbours that burn cores: the disturbance that the studies measure under.

Each is a helper process, started once and told over a pipe what to do, so that starting it does
not itself disturb a measurement.
"""

from __future__ import annotations

import subprocess
import sys
from typing import IO

import psutil

# The neighbour only spins and sleeps. It reads one command a line: "idle", "bursts", or "after N"
# (burn without a pause from N seconds on), and ends with its input.
_NEIGHBOUR = """
import random, sys, threading, time

command, number, changed = ["idle", 0.0], [0], threading.Condition()

def listen():
    for line in sys.stdin:
        word, *rest = line.split()
        with changed:
            command[:] = [word, float(rest[0]) if rest else 0.0]
            number[0] += 1
            changed.notify()
    with changed:
        command[0] = "end"
        number[0] += 1
        changed.notify()

threading.Thread(target=listen, daemon=True).start()
chance = random.Random()

def spin(seconds, started):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until and number[0] == started:
        pass

while True:
    with changed:
        word, wait = command
        started = number[0]
        if word == "idle":
            changed.wait_for(lambda: number[0] != started)
            continue
    if word == "end":
        break
    if word == "bursts":
        spin(chance.uniform(0.02, 0.2), started)
        with changed:
            changed.wait_for(lambda: number[0] != started, chance.uniform(0.02, 0.2))
    if word == "after":
        with changed:
            changed.wait_for(lambda: number[0] != started, wait)
        spin(600, started)
"""


# The neighbours must not be our children, whose processor time `compare` counts as ours. So a
# process in between starts each of them, tells its number and ends; the pipe stays.
_STARTER = """
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.DEVNULL).pid)
"""


class Load:
    """The neighbours, as a context manager; they end with the block.

    Attributes:
        processes: the helpers, as `psutil.Process`.
    """

    def __init__(self, most: int = 2):
        self._most = most

    def __enter__(self) -> Load:
        self.processes: list[psutil.Process] = []
        self._pipes: list[IO[str]] = []
        for _ in range(self._most):
            starter = subprocess.Popen(
                [sys.executable, "-c", _STARTER, _NEIGHBOUR],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.processes.append(psutil.Process(int(starter.stdout.readline())))
            starter.wait()
            starter.stdout.close()
            self._pipes.append(starter.stdin)
        return self

    def __exit__(self, *error) -> None:
        for pipe in self._pipes:
            pipe.close()
        _, alive = psutil.wait_procs(self.processes, timeout=5)
        for process in alive:
            process.kill()

    def _tell(self, command: str, cores: int = 1) -> None:
        for place, pipe in enumerate(self._pipes):
            pipe.write((command if place < cores else "idle") + "\n")
            pipe.flush()

    def idle(self) -> None:
        """Burn nothing."""
        self._tell("idle")

    def bursts(self, cores: int = 1) -> None:
        """Burn each of these cores for 20 to 200 ms, rest as long, and so on."""
        self._tell("bursts", cores)

    def steady(self, cores: int = 1) -> None:
        """Burn each of these cores without a pause, from now on."""
        self._tell("after 0", cores)

    def after(self, seconds: float) -> None:
        """Burn a core without a pause, from `seconds` from now on."""
        self._tell(f"after {seconds}")
