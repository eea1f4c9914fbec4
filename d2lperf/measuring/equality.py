"""Do two functions compute the same? Results of any library that gives its arrays to NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import torch

__all__ = ["ResultsDiffer", "check_results", "difference", "snapshot", "unfinished"]


# rtol and atol of torch.testing.assert_close; integers must be equal.
TOLERANCES = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
}


class ResultsDiffer(AssertionError):
    """Functions that were to be compared do not compute the same."""


def difference(a: Any, b: Any, rtol: float | None = None, atol: float | None = None) -> str:
    """Return "" where two results agree, else what differs and by how much.

    Arrays and numbers agree where |a - b| <= atol + rtol |b|. By default the tolerances are those
    of `torch.testing.assert_close` for the coarser of the two dtypes (rtol, atol: float64 1e-7,
    1e-7; float32 1.3e-6, 1e-5; bfloat16 1.6e-2, 1e-5; float16 1e-3, 1e-5; integers exact). Lists,
    tuples and dictionaries agree where all that they hold does; anything else must be equal.

    Args:
        a: a result, such as a tensor, an array of NumPy, JAX, MXNet or TensorFlow, or a number.
        b: the other one.
        rtol: relative tolerance; 0 where only `atol` is given.
        atol: absolute tolerance; 0 where only `rtol` is given.
    """
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.keys() != b.keys():
            return f"the keys differ: {_brief(sorted(a, key=str))}, {_brief(sorted(b, key=str))}"
        return _first_difference(((f"[{key!r}]", a[key], b[key]) for key in a), rtol, atol)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            return f"the lengths differ: {len(a)}, {len(b)}"
        places = ((f"[{i}]", x, y) for i, (x, y) in enumerate(zip(a, b)))
        return _first_difference(places, rtol, atol)
    x, y = _tensor(a), _tensor(b)
    if x is not None and y is not None:
        if (rtol, atol) == (None, None):
            known = [TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (x, y)]
            rtol, atol = map(max, zip(*known))
        return _numeric_difference(x, y, rtol or 0.0, atol or 0.0)
    try:
        return "" if bool(np.all(a == b)) else f"{_brief(a)} is not equal to {_brief(b)}"
    except Exception as error:  # an == that does not give a truth value
        return f"no way to tell whether {_brief(a)} equals {_brief(b)}: {error}"


def _numeric_difference(x: torch.Tensor, y: torch.Tensor, rtol: float, atol: float) -> str:
    tolerance = {"rtol": rtol, "atol": atol, "equal_nan": True}
    with suppress(RuntimeError):  # kinds of tensors that allclose does not know
        dtype = torch.promote_types(x.dtype, y.dtype)
        if x.shape == y.shape and torch.allclose(x.cpu().to(dtype), y.cpu().to(dtype), **tolerance):
            return ""
    # It finds the words; its first use takes half a second, which equal results need not wait for.
    same = dict.fromkeys(("check_dtype", "check_device", "check_stride", "check_layout"), False)
    try:
        torch.testing.assert_close(x, y, **tolerance, **same)
    except AssertionError as error:
        return str(error).strip()
    return ""


def _first_difference(
    parts: Iterable[tuple[str, Any, Any]], rtol: float | None, atol: float | None
) -> str:
    for place, x, y in parts:
        if wrong := difference(x, y, rtol, atol):
            return f"at {place}: {wrong}"
    return ""


def _tensor(value: Any) -> torch.Tensor | None:
    """A numeric result as a tensor of its own precision; None for anything else."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    try:
        array = _array(value)
    except Exception:  # an __array__ that does not work here
        return None
    if array is None:
        return None
    if array.dtype.name == "bfloat16":  # NumPy has it from ml_dtypes only
        return torch.from_numpy(array.astype(np.float32)).bfloat16()
    if array.dtype.kind not in "biufc":
        return None
    # What torch has no dtype for: long doubles; and unsigned integers, which it cannot subtract.
    if array.dtype.kind == "f" and array.itemsize > 8:
        array = array.astype(np.float64)
    elif array.dtype.kind == "c" and array.itemsize > 16:
        array = array.astype(np.complex128)
    elif array.dtype.kind == "u" and array.size and array.max() < 2**63:
        array = array.astype(np.int64)
    return torch.from_numpy(np.array(array, order="C"))


def _array(value: Any) -> np.ndarray | None:
    """The value as an array of NumPy, None where it does not offer that."""
    if isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)):
        return np.asarray(value)
    if hasattr(value, "asnumpy"):  # MXNet
        return value.asnumpy()
    if hasattr(value, "__array__"):  # JAX, TensorFlow, pandas
        return np.asarray(value)
    return np.from_dlpack(value) if hasattr(value, "__dlpack__") else None


def snapshot(result: Any) -> Any:
    """Return a copy of the arrays in a result, so that the next function cannot overwrite them."""
    if isinstance(result, torch.Tensor):
        return result.detach().clone()
    if isinstance(result, np.ndarray):
        return result.copy()
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
    if type(result).__module__.partition(".")[0] == "mxnet":
        return hasattr(result, "wait_to_read")
    if hasattr(result, "block_until_ready"):
        return not getattr(result, "is_ready", lambda: False)()
    return False


def check_results(
    name: str,
    baseline: str,
    expected: Any,
    result: Any,
    check: bool | Callable[[Any, Any], Any],
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Complain where a function's result differs from the baseline's.

    Args:
        name: of the function.
        baseline: name of the one that it is compared with.
        expected: the baseline's result.
        result: the function's.
        check: True, or a function of the two results: it fails where it returns something false
            (None is not) or raises.
        rtol: as in `difference`.
        atol: as in `difference`.

    Raises:
        ResultsDiffer: they differ.
    """
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
    elif not (wrong := difference(expected, result, rtol, atol)):
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
