"""Do two functions compute the same? Results of any library that gives its arrays to NumPy."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import torch

# rtol and atol of torch.testing.assert_close; integers must be equal.
TOLERANCES = {torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5)}
TOLERANCES |= dict.fromkeys((torch.float32, torch.complex64), (1.3e-6, 1e-5))
TOLERANCES |= dict.fromkeys((torch.float64, torch.complex128), (1e-7, 1e-7))


class ResultsDiffer(AssertionError):
    """Functions that were to be compared do not compute the same."""


def difference(a: Any, b: Any, rtol: float | None = None, atol: float | None = None) -> str:
    """Return "" where two results agree, else what differs and by how much.

    Arrays and numbers agree where |b - a| <= atol + rtol |a|, where `a` is what was expected, by
    default with `TOLERANCES` of the coarser of the two dtypes; a tolerance is 0 where only the
    other is given. Lists, tuples and dictionaries agree where all that they hold does; tables of
    pandas where their columns, index and dtypes do as well; anything else must be equal.
    """
    if _of_pandas(a) and _of_pandas(b):
        return _difference_of_tables(a, b, rtol, atol)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.keys() != b.keys():
            return f"the keys differ: {_brief(sorted(a, key=str))}, {_brief(sorted(b, key=str))}"
        places: Iterable = a.keys()
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            return f"the lengths differ: {len(a)}, {len(b)}"
        places = range(len(a))
    else:
        return _difference_of_values(a, b, rtol, atol)
    for place in places:
        if wrong := difference(a[place], b[place], rtol, atol):
            return f"at [{place!r}]: {wrong}"
    return ""


def _difference_of_values(a: Any, b: Any, rtol: float | None, atol: float | None) -> str:
    x, y = _tensor(a), _tensor(b)
    if x is None or y is None:
        try:
            return "" if bool(np.all(a == b)) else f"{_brief(a)} is not equal to {_brief(b)}"
        except Exception as error:  # an == that does not give a truth value
            return f"no way to tell whether {_brief(a)} equals {_brief(b)}: {error}"
    if (rtol, atol) == (None, None):
        rtol, atol = map(max, zip(*(TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (x, y))))
    options: dict[str, Any] = {"rtol": rtol or 0.0, "atol": atol or 0.0, "equal_nan": True}
    with suppress(RuntimeError):  # kinds of tensors that allclose does not know
        dtype = torch.promote_types(x.dtype, y.dtype)
        if x.shape == y.shape and torch.allclose(y.cpu().to(dtype), x.cpu().to(dtype), **options):
            return ""
    # It describes the difference. Its first use takes half a second, so only now.
    options |= dict.fromkeys(("check_dtype", "check_device", "check_stride", "check_layout"), False)
    try:
        torch.testing.assert_close(actual=y, expected=x, **options)
    except AssertionError as error:
        return str(error).strip()
    return ""


def _of_pandas(value: Any) -> bool:
    pandas = sys.modules.get("pandas")  # without it there are no tables of it
    return pandas is not None and isinstance(value, (pandas.DataFrame, pandas.Series, pandas.Index))


def _difference_of_tables(a: Any, b: Any, rtol: float | None, atol: float | None) -> str:
    """What differs between two tables, series or indexes of pandas; `a` was expected."""
    if type(a) is not type(b):
        return f"the kinds differ: {type(a).__name__}, {type(b).__name__}"
    for part in ("index", "columns", "dtypes") if a.ndim == 2 else ("index", "name", "dtype"):
        left: Any = getattr(a, part, None)
        right: Any = getattr(b, part, None)
        same = left.equals(right) if hasattr(left, "equals") else left == right
        if not same:
            return f"the {part} differ: {_brief(left)}, {_brief(right)}"
    if a.ndim == 1:
        return _difference_of_columns(a, b, rtol, atol)
    for i, column in enumerate(a.columns):  # by place: names of columns may repeat
        wrong = _difference_of_columns(a.iloc[:, i], b.iloc[:, i], rtol, atol)
        if wrong:
            return f"in column {column!r}: {wrong}"
    return ""


def _difference_of_columns(a: Any, b: Any, rtol: float | None, atol: float | None) -> str:
    if a.equals(b):  # also of texts, dates and what is missing
        return ""
    x, y = a.to_numpy(), b.to_numpy()
    if x.dtype.kind in "biufc":
        return _difference_of_values(x, y, rtol, atol)
    if a.dtype.kind == "f":  # pandas' own floating-point numbers, of which some may be missing
        x, y = (column.to_numpy(dtype=float, na_value=np.nan) for column in (a, b))
        return _difference_of_values(x, y, rtol, atol)
    return f"{_brief(x.tolist())} is not equal to {_brief(y.tolist())}"


def _tensor(value: Any) -> torch.Tensor | None:
    """A numeric result as a tensor of its own precision; None for anything else."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    array = None
    with suppress(Exception):  # an __array__ that does not work here
        if hasattr(value, "asnumpy"):  # MXNet
            array = value.asnumpy()
        elif isinstance(value, (int, float, complex)) or hasattr(value, "__array__"):
            array = np.asarray(value)  # also JAX, TensorFlow, pandas
        elif hasattr(value, "__dlpack__"):
            array = np.from_dlpack(value)
    if array is None:
        return None
    if array.dtype.name == "bfloat16":  # NumPy has it from ml_dtypes only
        return torch.from_numpy(array.astype(np.float32)).bfloat16()
    kind = array.dtype.kind
    if kind not in "biufc":
        return None
    # What torch has no dtype for: long doubles; and unsigned integers, which it cannot subtract.
    if kind in "fc" and array.itemsize > (8 if kind == "f" else 16):
        array = array.astype(np.float64 if kind == "f" else np.complex128)
    elif kind == "u" and array.size and array.max() < 2**63:
        array = array.astype(np.int64)
    return torch.from_numpy(np.array(array, order="C"))


def snapshot(result: Any) -> Any:
    """Return a copy of the arrays in a result, so that the next function cannot overwrite them."""
    if isinstance(result, torch.Tensor):
        return result.detach().clone()
    if isinstance(result, np.ndarray):
        return result.copy()
    if _of_pandas(result):
        return result.copy(deep=True)
    if isinstance(result, dict):
        return {key: snapshot(value) for key, value in result.items()}
    if isinstance(result, (list, tuple)):  # of namedtuples the values are enough
        return (list if isinstance(result, list) else tuple)(map(snapshot, result))
    return result.asnumpy() if hasattr(result, "asnumpy") else result


def unfinished(result: Any) -> bool:
    """Tell whether a result, or one that it holds, is still being computed (JAX, MXNet)."""
    if isinstance(result, Mapping):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return any(map(unfinished, result))
    is_ready = getattr(result, "is_ready", lambda: False)
    late = hasattr(result, "block_until_ready") and not is_ready()
    return late or hasattr(result, "wait_to_read")


def warn_if_unfinished(name: str, result: Any, stacklevel: int) -> None:
    """Warn at the caller's line, `stacklevel` frames up, if a result is still being computed."""
    if unfinished(result):
        warnings.warn(
            f"{name!r} returns before its result is computed, so that only the start of the work "
            "is timed. Wait in the function: .block_until_ready() for JAX, .asnumpy() for MXNet.",
            stacklevel=stacklevel + 1,
        )


def check_results(
    name: str,
    baseline: str,
    expected: Any,
    result: Any,
    check: Any,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Raise ResultsDiffer if the result of a function is not the one `expected`, the baseline's."""
    cause = None
    if callable(check):
        try:
            verdict = check(expected, result)
            if verdict is None or verdict:
                return
            wrong = f"The given check returned {_brief(verdict)}"
        except Exception as error:
            wrong, cause = f"The given check raised {type(error).__name__}: {error}", error
        wrong += f"\n{difference(expected, result) or 'By the default check they are equal.'}"
    else:
        wrong = difference(expected, result, rtol, atol)
        if not wrong:
            return
    raise ResultsDiffer(
        f"{name!r} and {baseline!r} do not give the same result, so their times cannot be "
        f"compared.\n{wrong}\nCorrect one of them, or allow the difference with rtol= and atol=. "
        "Where results differ on purpose (random numbers, say) pass check=False, or "
        "check=a_function(a, b) that returns True when they agree."
    ) from cause


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
