"""Functions in processes of their own."""

import os

import psutil
import pytest
import torch

from d2lperf.benchmark import ISOLATED_RULES, Plan, compare
from d2lperf.isolate import CannotIsolate, isolated_subjects


def test_each_function_runs_in_a_process_of_its_own_that_ends():
    with isolated_subjects({"a": os.getpid, "b": os.getpid}) as subjects:
        first = {s.name: s.first_result(True) for s in subjects}
        again = {s.name: s.first_result(True) for s in subjects}
        assert first == again
        assert len({os.getpid(), *first.values()}) == 3
        assert len(subjects[0].first_calls_s) == 2
    assert not any(psutil.pid_exists(pid) for pid in first.values())


def test_workers_take_over_threads_and_grad_mode():
    def settings():
        return torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype()

    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), isolated_subjects({"a": settings}) as (subject,):
            assert subject.first_result(True) == (torch.get_num_threads(), False, torch.float64)
    finally:
        torch.set_default_dtype(torch.float32)


def test_phases_come_back_from_the_worker():
    with isolated_subjects({"a": lambda: sum(range(100))}) as (subject,):
        call_s = subject.warm_up()
        assert call_s > 0 and len(subject.first_calls_s) >= 5
        plan = subject.plan(call_s)
        assert plan.samples == ISOLATED_RULES.samples
        assert len(subject.phase(Plan(1, 10, 4, 10.0))) == 4


def test_a_workers_error_comes_through_with_its_type():
    def breaks():
        raise ZeroDivisionError("in the worker")

    with pytest.raises(ZeroDivisionError, match="in the worker") as caught:
        compare({"a": lambda: 1, "b": breaks}, isolated=True)
    assert caught.value.partial.isolated


def test_an_error_that_speaks_of_pickles_is_the_users_own():
    def breaks():
        raise FileNotFoundError("data.pickle is not there")

    with pytest.raises(FileNotFoundError, match=r"data\.pickle") as caught:
        compare({"a": lambda: 1, "b": breaks}, isolated=True)
    assert "breaks" in str(caught.value.__cause__)


def test_a_result_that_cannot_travel_stays_where_it_is_unless_it_is_checked():
    def lock():
        return __import__("threading").Lock()

    with isolated_subjects({"a": lock}) as (subject,):
        assert subject.first_result(False) is None
        with pytest.raises(CannotIsolate, match="check=False"):
            subject.first_result(True)


def test_what_cannot_travel_is_explained():
    lock = __import__("threading").Lock()
    with pytest.raises(CannotIsolate, match=r"'b'.*cannot be sent"):
        compare({"a": lambda: 1, "b": lambda: lock and 1}, isolated=True)


def test_a_process_that_dies_is_named():
    with pytest.raises(CannotIsolate, match="process of 'b' ended"):
        compare({"a": lambda: 1, "b": lambda: os._exit(3)}, isolated=True)


def test_an_isolated_comparison_gives_a_verdict_and_says_it_was_isolated():
    def once():
        sum(range(2000))

    def thrice():
        for _ in range(3):
            sum(range(2000))

    found = compare({"once": once, "thrice": thrice}, isolated=True, budget_s=8)
    assert found.isolated
    assert found["thrice"].verdict in ("slower", "not decided")
    assert found["thrice"].ratio == pytest.approx(3, rel=0.5)
