"""Whether two results are the same, and what is said where they are not."""

import math
import re
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch

from d2lperf.measuring.compare import compare, measure
from d2lperf.measuring.equality import (
    ResultsDiffer,
    check_results,
    difference,
    snapshot,
    unfinished,
)


class Foreign:
    """An array of another library, which gives itself to NumPy."""

    def __init__(self, values, ready=True):
        self.values, self.ready = np.asarray(values), ready

    def __array__(self, dtype=None, copy=None):
        return self.values

    def is_ready(self):
        return self.ready

    def block_until_ready(self):
        return self


class ByDlpack:
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


near, far = 1 + 5e-7, 1 + 1e-4


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (torch.ones(3), torch.ones(3), True),
        (torch.ones(3), torch.ones(3) + 1e-3, False),
        (torch.ones(3), torch.ones(4), False),
        (torch.ones(3), torch.ones(3, dtype=torch.float64), True),
        (torch.ones(3, requires_grad=True), torch.ones(3), True),
        (torch.tensor([math.nan]), torch.tensor([math.nan]), True),
        (np.ones(3), np.ones(3), True),
        (np.ones(3), np.zeros(3), False),
        (np.ones((2, 3))[:, ::-1], np.ones((2, 3)), True),
        ({"x": [torch.ones(2), 1.0]}, {"x": [torch.ones(2), 1.0]}, True),
        ({"x": 1}, {"y": 1}, False),
        ((1, 2), (1, 2, 3), False),
        (None, None, True),
        (None, 1, False),
        ("text", "text", True),
        ("text", "other", False),
        ({1, 2}, {2, 1}, True),
        (object(), object(), False),
        ([torch.ones(2), "x"], [torch.ones(2), "y"], False),
        (np.array(["a", "b"]), np.array(["a", "b"]), True),
        (np.array(["a", "b"]), np.array(["a", "c"]), False),
        (torch.ones(2), np.ones(2), True),
        (torch.tensor(1.5), 1.5, True),
        (torch.tensor(1.5), 1.6, False),
        ([], [], True),
        # The first edition crashed, or called equal ones different.
        (True, 1, True),
        (True, 0, False),
        (np.True_, 1, True),
        (2**70, 2**70, True),
        (2**70, 2**70 + 1, False),
        (np.longdouble(1) / 3, np.longdouble(1) / 3, True),
        (np.ones(3, dtype=np.longdouble), np.ones(3), True),
        (np.ones(3, dtype=np.longdouble), np.zeros(3, dtype=np.longdouble), False),
        (np.ones(3, dtype=np.clongdouble), np.ones(3, dtype=complex), True),
        (np.array([3], np.uint16), np.array([3], np.uint16), True),
        (np.array([2], np.uint64), np.array([3], np.uint64), False),
        # Scalars of NumPy at the tolerance of their own precision.
        (np.float32(1), np.float32(near), True),
        (np.float32(1), np.float32(far), False),
        (np.float64(1), np.float64(near), False),
        # Arrays of other libraries.
        (Foreign([1.0, 2.0]), Foreign([1.0, 2.0]), True),
        (Foreign([1.0, 2.0]), torch.tensor([1.0, 2.5]), False),
        (Foreign(np.float32([1.0])), np.float32([near]), True),
        (ByDlpack(torch.ones(2)), np.ones(2), True),
        (ByDlpack(torch.ones(2)), np.zeros(2), False),
    ],
)
def test_what_counts_as_equal(a, b, equal):
    assert (difference(a, b) == "") is equal


def test_the_difference_is_located_and_measured():
    wrong = difference({"a": [1.0, 2.0]}, {"a": [1.0, 3.0]})
    assert wrong.startswith("at ['a']: at [1]:") and "1.0" in wrong


@pytest.mark.parametrize(
    ("options", "equal"),
    [
        ({}, False),
        ({"rtol": 1e-3}, True),
        ({"rtol": 1e-5}, False),
        ({"atol": 0.5}, True),
        ({"rtol": 0.0, "atol": 1e-3}, False),
    ],
)
def test_tolerances_can_be_given(options, equal):
    functions = {"a": lambda: torch.full((3,), 10.0), "b": lambda: torch.full((3,), 10.005)}
    if equal:
        assert compare(functions, budget_s=0.05, **options).checked
        return
    with pytest.raises(ResultsDiffer, match=r"'b' and 'a'[\s\S]*0\.005[\s\S]*rtol="):
        compare(functions, budget_s=0.05, **options)


@pytest.mark.parametrize("answer", [True, None, 1, np.True_])
def test_a_check_of_ones_own_agrees_by_truth_or_silence(answer):
    check_results("b", "a", 1, 2, lambda a, b: answer)


def test_a_check_of_ones_own_that_fails_still_says_by_how_much():
    with pytest.raises(
        ResultsDiffer, match=r"'b' and 'a'[\s\S]*returned False[\s\S]*4\.0"
    ) as caught:
        check_results("b", "a", 1.0, 5.0, lambda a, b: a > b)
    assert "1.0" in str(caught.value)


def test_a_check_that_raises_tells_the_names_and_keeps_its_words():
    with pytest.raises(ResultsDiffer, match=r"'b' and 'a'[\s\S]*AssertionError") as caught:
        check_results("b", "a", np.ones(2), np.zeros(2), np.testing.assert_allclose)
    assert isinstance(caught.value.__cause__, AssertionError)


@pytest.mark.parametrize("check", [1e-3, 0.0, 0, 1, "allclose", None])
def test_a_check_that_is_neither_bool_nor_function_is_refused(check):
    with pytest.raises(TypeError, match="rtol="):
        compare({"a": len, "b": len}, check=check)


@pytest.mark.parametrize(
    "options", [{"check": False, "rtol": 1e-3}, {"check": max, "atol": 1.0}, {"rtol": -1.0}]
)
def test_tolerances_without_a_check_are_refused(options):
    with pytest.raises(ValueError, match="rtol"):
        compare({"a": len, "b": len}, **options)


TABLE = pd.DataFrame({"x": [1.0, 2.0], "s": ["a", None]}, index=["p", "q"])
WHOLE = pd.DataFrame({"n": [1, 2]})


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (TABLE, TABLE.copy(), ""),
        (TABLE, TABLE.rename(columns={"x": "y"}), "columns differ"),
        (TABLE, TABLE.set_axis(["p", "r"]), "index differ"),
        (TABLE, TABLE.iloc[:1], "index differ"),
        (WHOLE, WHOLE.astype("float64"), "dtypes differ"),
        (TABLE, TABLE.assign(x=TABLE.x + 1e-9), ""),
        (TABLE, TABLE.assign(x=TABLE.x + 1e-3), r"in column 'x'[\s\S]*difference: 0\.00(1|099)"),
        (TABLE, TABLE.assign(s=["a", "b"]), "in column 's': .*'b'"),
        (WHOLE, WHOLE + 1, "in column 'n'"),
        (TABLE, TABLE.assign(name=[1.0, 2.0]), "columns differ"),
        (WHOLE.assign(name=[1.0, 2.0]), WHOLE.assign(name=[1.0, 2.0 + 1e-9]), ""),
        (WHOLE.n, WHOLE.n.rename("m"), "name differ"),
        (WHOLE.n, WHOLE.n.astype("int32"), "dtype differ"),
        (WHOLE.n, WHOLE.n.copy(), ""),
        (WHOLE.n, WHOLE, "kinds differ: Series, DataFrame"),
        (WHOLE.n, np.array([1, 2]), ""),
        (pd.Index(["a"]), pd.Index(["b"]), "'b'"),
        (pd.Series([1.0, None], dtype="Float64"), pd.Series([1.0, None], dtype="Float64"), ""),
        (pd.Series([1.0, None], dtype="Float64"), pd.Series([2.0, None], dtype="Float64"), "."),
    ],
)
def test_tables_agree_in_columns_index_and_dtypes(a, b, words):
    """Tables with other columns and another index once counted as equal."""
    found = difference(a, b)
    assert re.search(words, found) if words else found == ""


def test_tolerances_hold_for_tables():
    assert difference(TABLE, TABLE.assign(x=TABLE.x + 0.1), atol=0.2) == ""


@pytest.mark.parametrize("table", [WHOLE, TABLE.x])
def test_a_table_that_the_next_function_writes_over_is_compared_as_it_was(table):
    kept, before = snapshot({"t": table})["t"], table.copy()
    kept.iloc[0] = 7
    assert table.equals(before) and not kept.equals(before)


@pytest.mark.parametrize(("expected", "found"), [(1, 2), (1.0, 2.0), (torch.tensor(1), 2)])
def test_the_baselines_result_is_what_was_expected(expected, found):
    """A baseline of 1 and another function's 2 once read "Expected 2 but got 1"."""
    with pytest.raises(ResultsDiffer, match=r"Expected 1(\.0)? but got 2"):
        compare({"baseline": lambda: expected, "new": lambda: found}, budget_s=0.05)


# ------------------------------------------------------------------- results that are reused


class Pair(NamedTuple):
    first: torch.Tensor
    rest: list


@pytest.mark.parametrize("kind", [list, tuple, lambda parts: Pair(*parts), dict])
def test_a_result_that_the_next_function_writes_over_is_compared_as_it_was(kind):
    shared = torch.ones(3)

    def result(value):
        shared.fill_(value)
        return {"x": shared} if kind is dict else kind([shared, [2]])

    with pytest.raises(ResultsDiffer):
        compare({"right": lambda: result(1.0), "wrong": lambda: result(5.0)})


def test_a_snapshot_of_numpy_is_a_copy():
    array = np.ones(2)
    kept = snapshot([array])
    array[:] = 0
    assert kept[0].tolist() == [1, 1]


# --------------------------------------------------------- results that are not there yet


def test_unfinished_results_are_recognised_in_containers():
    late, done = Foreign([1.0], ready=False), Foreign([1.0])
    assert unfinished(late) and unfinished({"x": [done, late]})
    assert not unfinished(done) and not unfinished([torch.ones(2), 3, "x"])
    mxnet = type("ndarray", (), {"__module__": "mxnet.numpy", "wait_to_read": lambda self: None})
    assert unfinished((1, mxnet()))


def test_a_function_that_does_not_wait_for_its_result_is_told():
    late, done = Foreign([1.0], ready=False), Foreign([1.0])
    with pytest.warns(UserWarning, match=r"'late' returns before.*block_until_ready"):
        compare({"done": lambda: done, "late": lambda: late}, budget_s=0.05)
    with pytest.warns(UserWarning, match="returns before"):
        compare({"done": lambda: done, "late": lambda: late}, budget_s=0.05, check=False)
    with pytest.warns(UserWarning, match="'late' returns before"):
        measure(lambda: late, name="late", budget_s=0.01)
