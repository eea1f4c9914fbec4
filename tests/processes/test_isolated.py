"""Functions under the clock in processes of their own."""

import os
import threading

import psutil
import pytest
import torch

from d2lperf.measuring.sampling import ISOLATED_RULES, Plan
from d2lperf.processes import WorkerError
from d2lperf.processes.isolated import isolated_subjects


def test_each_function_runs_in_a_process_of_its_own_that_ends():
    with isolated_subjects({"a": os.getpid, "b": os.getpid}) as subjects:
        first = {s.name: s.first_result(True) for s in subjects}
        again = {s.name: s.first_result(True) for s in subjects}
        assert first == again
        assert len({os.getpid(), *first.values()}) == 3
        assert len(subjects[0].first_calls_s) == 2 and not subjects[0].on_device
    assert not any(psutil.pid_exists(pid) for pid in first.values())


def test_threads_are_as_many_as_here():
    with isolated_subjects({"a": torch.get_num_threads}) as (subject,):
        assert subject.first_result(True) == torch.get_num_threads()


def test_phases_come_back_from_the_worker():
    with isolated_subjects({"a": lambda: sum(range(100))}) as (subject,):
        call_s = subject.warm_up()
        assert call_s > 0 and len(subject.first_calls_s) >= 5
        assert subject.plan(call_s).samples == ISOLATED_RULES.samples
        assert len(subject.phase(Plan(1, 10, 4, 10.0))) == 4


def test_the_time_that_a_process_has_used_is_told():
    """The kernel's own clocks do not see it."""
    with isolated_subjects({"a": lambda: sum(range(10**4))}) as (subject,):
        subject.warm_up()
        before = subject.used
        subject.phase(Plan(1, 10, 4, 10.0))
        after = subject.used
    assert 0 < before.work_s < after.work_s and 0 < before.thread_s < after.thread_s
    assert before.cpu_s < after.cpu_s


def test_setup_runs_beside_the_function():
    with isolated_subjects({"a": lambda x: x + 1}, setup=lambda: 1) as (subject,):
        assert subject.first_result(True) == 2


def test_a_workers_error_comes_as_it_was_and_the_others_go_on():
    def breaks():
        raise FileNotFoundError("data.pickle is not there")

    with isolated_subjects({"a": lambda: 1, "b": breaks}) as (a, b):
        with pytest.raises(FileNotFoundError, match=r"data\.pickle") as caught:
            b.first_result(True)
        assert "in breaks" in str(caught.value.__cause__)
        assert a.first_result(True) == 1


def test_what_cannot_travel_is_explained():
    lock = threading.Lock()
    with isolated_subjects({"a": threading.Lock}) as (subject,):
        assert subject.first_result(False) is None
        with pytest.raises(WorkerError, match="check=False"):
            subject.first_result(True)
    with (
        pytest.raises(WorkerError, match=r"'b' cannot be sent.*without isolated=True"),
        isolated_subjects({"a": int, "b": lambda: lock and 1}),
    ):
        pass


def test_a_process_that_dies_is_named():
    with (
        pytest.raises(WorkerError, match="the process of 'b' exited with status 3"),
        isolated_subjects({"a": int, "b": lambda: os._exit(3)}) as (_, b),
    ):
        with pytest.raises(WorkerError, match="the process of 'b' exited"):
            b.first_result(True)
        b.first_result(True)  # later as well
