"""A neighbour that burns a core: the disturbance that the studies measure under.

It is one helper process, started once and told over a pipe what to do, so that starting it does
not itself disturb a measurement.
"""

from __future__ import annotations

import subprocess
import sys

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


class Load:
    """The neighbour, as a context manager; it ends with the block.

    >>> with Load() as load:
    ...     load.bursts()
    ...     load.idle()
    """

    def __enter__(self) -> Load:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _NEIGHBOUR], stdin=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *error) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tell(self, command: str) -> None:
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def idle(self) -> None:
        """Burn nothing."""
        self._tell("idle")

    def bursts(self) -> None:
        """Burn a core for 20 to 200 ms, rest as long, and so on."""
        self._tell("bursts")

    def after(self, seconds: float) -> None:
        """Burn a core without a pause, from `seconds` from now on."""
        self._tell(f"after {seconds}")
