"""The words about a worker that died."""

import signal

import pytest

from d2lperf.processes.errors import death_of


@pytest.mark.parametrize(
    ("status", "busy", "words", "number"),
    [
        (-signal.SIGKILL, True, "killed by signal 9 (SIGKILL). If nobody did that by hand", 9),
        (-signal.SIGSEGV, True, "killed by signal 11 (SIGSEGV). That is a crash in compiled", 11),
        (-77, True, "killed by signal 77 (without a name). That is a crash", 77),
        (3, True, "exited with status 3. Something called sys.exit", None),
        (3, False, "exited with status 3 after its function had returned. Something", None),
    ],
)
def test_a_death_is_told_with_its_likely_cause(status, busy, words, number):
    error = death_of("rank 1 of 2", 1, status, busy)
    assert str(error).startswith("rank 1 of 2 ") and words in str(error)
    assert (error.rank, error.signal) == (1, number)
