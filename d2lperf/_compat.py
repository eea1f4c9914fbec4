"""Internal names of torch and of the standard library that d2lperf uses, all in this file.

They may change with any release. `PRIVATE` says for each what it is used for, and
`tests/test_compat.py` names those that have gone. Checked with torch 2.13.0 and Python 3.10.13,
3.11.7, 3.12.1 and 3.13.0. Modules of torch that it does not import itself are imported at use.
"""

from __future__ import annotations

import atexit
import dis
import functools
import linecache
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker, spawn
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

import d2lperf.requirements

d2lperf.requirements.check()  # what measures or records goes through this file

__all__ = ["TorchDispatchMode"]  # as it is; the rest has names of ours

# module:name -> what for. Some have no underscore, but are documented nowhere.
PRIVATE = {
    "atexit:_clear": "a worker, which is a fork, must not do what its server would do at its end",
    "atexit:_run_exitfuncs": "multiprocessing ends a process without its exit functions",
    "weakref:finalize._registered_with_atexit": "after atexit._clear() it has to register again",
    "sys:_current_frames": "where a worker is that does not answer",
    "linecache:cache": "sources of a notebook's cells, for the tracebacks of workers",
    "multiprocessing.forkserver:ensure_running": "starts the server while SIGINT is blocked",
    "multiprocessing.resource_tracker:ensure_running": "starts before that, since it unblocks it",
    "multiprocessing.spawn:get_preparation_data": "a worker must not run the caller's script again",
    "torch.distributed.distributed_c10d:default_pg_timeout": "the timeout of groups made later",
    "torch.distributed.distributed_c10d:default_pg_nccl_timeout": "the same for NCCL",
    "torch.distributed.distributed_c10d:_get_default_store": "ranks leave a group together",
    "torch.distributed.elastic.utils.store:barrier": "ranks wait for each other before the group",
    "torch._C._profiler:_ExperimentalConfig": "the profiler records threads other than the caller",
    "torch._C._autograd:_ProfilerResult.events": "a profiler's raw events, in `kineto_results`",
    "torch.autograd:_profiler_enabled": "whether a profiler is at work in this thread",
    "torch.autograd.profiler:_is_profiler_enabled": "whether a profiler is at work for all threads",
    "torch.utils._python_dispatch:TorchDispatchMode": "sees each operation, to count its work",
    "torch.utils._pytree:tree_leaves": "finds tensors in lists, tuples and dictionaries",
    "torch.utils._pytree:tree_map": "replaces tensors in lists, tuples and dictionaries",
    "torch.utils.flop_counter:flop_registry": "the formulas of torch's own counter of FLOPs",
    "torch:ops.aten.add.Tensor._schema": "which tensors an operation overwrites",
    "torch:Tensor._version": "whether a tensor has been changed",
    "torch:ops.aten.add.Tensor._op_dk": "runs a composite operation as those that it is made of",
    "torch._C:DispatchKey": "the name of the code that composes an operation",
    "torch._C:_dispatch_has_kernel_for_dispatch_key": "whether an operation has such code",
    "torch._C:_dispatch_key_for_device": "and whether a kind of device has a kernel of its own",
    "torch:_int_mm": "the product of int8 matrices, for the machine's ceilings",
    "torch._C:_DisableTorchDispatch": "copies of a state are no operations of the function",
    "torch._C:DisableTorchFunctionSubclass": "an exercise's promises call what they stand for",
}
# Only in some builds of torch; without them we do without.
OPTIONAL = {
    "torch._C:_cuda_hasPrimaryContext": "waiting for a GPU that is not in use would set it up",
}


def forget_exit_functions() -> None:
    """Forget what this process was told to do at its end."""
    atexit._clear()
    finalize: Any = weakref.finalize  # of whose attribute the type stubs know nothing
    finalize._registered_with_atexit = False


def run_exit_functions() -> None:
    """Do now what this process was told to do at its end."""
    atexit._run_exitfuncs()


def frame_of(thread: int | None) -> FrameType | None:
    """Return what a thread, given by its `ident`, executes at this moment; None if it ended."""
    return sys._current_frames().get(thread) if thread is not None else None


def sources_of_cells() -> dict[str, tuple]:
    """Return the sources of code that is in no file, such as a notebook's cells, by its name."""
    # A traceback first drops the sources of files that are gone, unless they have no time.
    return {
        name: (entry[0], None, *entry[2:])
        for name, entry in linecache.cache.items()
        if len(entry) == 4 and not os.path.exists(name)
    }


def add_sources(cells: dict[str, tuple]) -> None:
    """Let tracebacks of this process show the sources that another one has sent."""
    linecache.cache.update(cells)


def ensure_resource_tracker() -> None:
    """Start the resource tracker of multiprocessing, unless it is there."""
    resource_tracker.ensure_running()


def ensure_fork_server() -> None:
    """Start the fork server of multiprocessing, unless it is there."""
    forkserver.ensure_running()


@contextmanager
def no_script(worker: str) -> Iterator[None]:
    """In this block the process named `worker` is started without the caller's script.

    multiprocessing sends each process the name of the script, which is then run again. It finds
    the name in `sys.modules["__main__"]`, which other threads need too. So what it sends is changed
    instead, for this process alone. Only one thread may be in such a block.
    """
    really = spawn.get_preparation_data

    def without_script(name: str) -> dict[str, Any]:
        data = really(name)
        if name == worker:
            data.pop("init_main_from_name", None)
            data.pop("init_main_from_path", None)
        return data

    spawn.get_preparation_data = without_script
    try:
        yield
    finally:
        spawn.get_preparation_data = really


def stopped_at_raise(place: TracebackType) -> bool:
    """Return whether a frame was left by its own `raise`, and not by an error in a call."""
    return dis.opname[place.tb_frame.f_code.co_code[place.tb_lasti]] == "RAISE_VARARGS"


def has_context(index: int) -> bool:
    """Return whether this process has set up GPU `index`, or True if torch does not tell."""
    tells = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    return tells is None or tells(index)


def set_default_timeout(timeout: Any) -> None:
    """Set the timeout (a timedelta) of process groups that are made later."""
    from torch.distributed import distributed_c10d

    distributed_c10d.default_pg_timeout = timeout
    distributed_c10d.default_pg_nccl_timeout = timeout


def default_store() -> Any:
    """Return the store of the process group that is there."""
    from torch.distributed import distributed_c10d

    return distributed_c10d._get_default_store()


def wait_for_ranks(store: Any, world_size: int, key: str, timeout_s: float) -> None:
    """Wait until so many processes have come to this line, which has a key of its own."""
    from torch.distributed.elastic.utils.store import barrier

    barrier(store, world_size, key, timeout_s)


def all_threads_config() -> Any:
    """Return `experimental_config` of `torch.profiler.profile` for all threads."""
    from torch._C._profiler import _ExperimentalConfig

    return _ExperimentalConfig(profile_all_threads=True)


def profiling() -> bool:
    """Return whether a profiler of torch is running, in this thread or for all."""
    return torch.autograd._profiler_enabled() or torch.autograd.profiler._is_profiler_enabled


def raw_events(profiler: Any) -> list[Any]:
    """Return torch's `_KinetoEvent`s of a `torch.profiler.profile` that was stopped.

    The public list, `events()`, takes much longer and drops some nested spans.
    """
    return profiler.profiler.kineto_results.events()


def leaves(values: Any) -> list[Any]:
    """Return what nested lists, tuples and dictionaries hold."""
    return _pytree.tree_leaves(values)


def map_leaves(function: Callable[[Any], Any], values: Any) -> Any:
    """Return nested lists, tuples and dictionaries with `function` of what they hold."""
    return _pytree.tree_map(function, values)


def arguments_of(operation: Any) -> Any:
    """Return the declared arguments of an operation: name, `is_out`, `alias_info` of each."""
    return operation._schema.arguments


def changes_of(tensor: torch.Tensor) -> int:
    """Return how often a tensor has been changed in place; one of inference mode cannot tell."""
    return tensor._version


def flop_formula(packet: Any) -> Callable[..., int] | None:
    """Return torch's own formula for the FLOPs of an operation, or None where it has none.

    It takes the arguments of the operation and, as `out_val`, its result.
    """
    from torch.utils.flop_counter import flop_registry

    return flop_registry.get(packet)


def is_composite(operation: Any, args: tuple, kwargs: dict) -> bool:
    """Return whether an operation has no kernel of its own for these tensors, but others do it.

    Autograd sees only those others. In inference mode it is left out, so the operation arrives.
    """
    if operation.namespace == "prim":  # TorchScript's own; tensors of other classes use some
        return False
    if not _has_code(operation.name(), "CompositeImplicitAutograd"):
        return False
    tensors = [value for value in leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    if any(tensor.is_nested for tensor in tensors):  # these have other code for it
        return False
    keys = {torch._C._dispatch_key_for_device(tensor.device.type) for tensor in tensors}
    return not any(_has_code(operation.name(), key) for key in keys)


@functools.cache  # asked in every operation; a kernel that is registered later is not seen
def _has_code(name: str, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


def run_composed(operation: Any, args: tuple, kwargs: dict) -> Any:
    """Run a composite operation as the operations that it is made of; return its result."""
    return operation._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def int8_product() -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return the product of int8 matrices that sums in int32; `torch.mm` overflows."""
    return torch._int_mm


def plain_calls() -> Any:
    """In this block `__torch_function__` of a tensor's subclass is not asked."""
    return torch._C.DisableTorchFunctionSubclass()


def unseen() -> Any:
    """In this block no `TorchDispatchMode` sees the operations."""
    return torch._C._DisableTorchDispatch()
