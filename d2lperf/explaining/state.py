"""Puts back what a function changes, so that a training step can be run many times.

The function's first run is watched: what torch's operations write into memory that was there before
is copied first. That covers parameters, buffers such as the statistics of batch norm, and the
moments of an optimizer. Gradients and what optimizers keep in dictionaries are noted, too. With
gradient accumulation an optimizer steps in a later run: its parameters and moments are copied then,
unless gc.freeze() hides it. What else only a later run overwrites stays, and is reported: torch
counts the changes of most tensors. Other threads are left alone. Python's own state cannot be seen:
iterators, counters, attributes that are assigned anew.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from d2lperf import _compat
from d2lperf._compat import TorchDispatchMode
from d2lperf.counting import places
from d2lperf.counting.counter import touched_by

__all__ = ["StateKeeper"]


class KeptTensor(NamedTuple):
    """The memory of a tensor, and a copy of what it held."""

    storage: torch.UntypedStorage
    before: torch.UntypedStorage


class KeptOptimizer(NamedTuple):
    """An optimizer and what its dictionaries held: state by parameter, and options by group."""

    optimizer: weakref.ref[Optimizer]  # one that the function makes in each call may go
    state: dict[Any, Any]
    options: list[dict]


class KeptGradient(NamedTuple):
    """A parameter and the gradient that it had."""

    parameter: torch.Tensor
    gradient: torch.Tensor | None


class Seen(NamedTuple):
    """A tensor that was there before the first run, and how often it had been changed by then."""

    tensor: weakref.ref[torch.Tensor]
    changes: int


class StateKeeper(TorchDispatchMode):
    """Watches what runs in its with-block; `put_back` undoes what was changed since it began.

    Until then it also sees the first step of each optimizer that was there after the first run.

    Attributes:
        changed: what was put back, in words, for a report.
        left: what could not be put back.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changed: list[str] = []
        self.left: list[str] = []
        self._tensors: dict[int, KeptTensor] = {}
        self._optimizers: list[KeptOptimizer] = []
        self._unstepped: dict[int, Optimizer] = {}  # in the first run
        self._gradients: dict[int, KeptGradient] = {}
        self._noted: dict[int, KeptGradient] = {}  # before the first run: zero_grad() drops some
        self._made: dict[int, torch.UntypedStorage] = {}  # by this run; kept so that none is reused
        self._seen: list[Seen] = []
        self._watching = False
        self._thread = threading.get_ident()
        self._hook: RemovableHandle | None = None

    def __enter__(self) -> StateKeeper:
        for optimizer in _optimizers():
            for parameter in _parameters(optimizer):
                self._noted[id(parameter)] = KeptGradient(parameter, parameter.grad)
        tensors = [t for t in gc.get_objects() if issubclass(type(t), torch.Tensor)]
        # Those of other classes, such as FakeTensor, may have no address.
        plain = [t for t in tensors if type(t) in (torch.Tensor, torch.nn.Parameter)]
        # What the counter leaves to a class of tensors does not come through here.
        for tensor in filter(places.has_dispatch, tensors):
            if tensor.is_leaf and tensor.requires_grad:
                self._keep_gradient(tensor)
        counting = [tensor for tensor in plain if not tensor.is_inference()]
        self._seen = [Seen(weakref.ref(t), _compat.changes_of(t)) for t in counting]
        self._hook = register_optimizer_step_pre_hook(self._before_step)
        self._watching = True
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._watching = False
        self._made.clear()
        kept = [kept.optimizer() for kept in self._optimizers]
        self._unstepped = {id(o): o for o in _optimizers() if not any(o is k for k in kept)}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Copy what an operation is about to overwrite, then run it."""
        kwargs = kwargs or {}
        if types and any(map(places.wraps_others, places.tensors_in([args, kwargs]))):
            return NotImplemented  # torch asks the class, and we see what it does
        touched = touched_by(func, args, kwargs, None)
        for tensor in touched.read:
            if tensor.is_leaf and tensor.requires_grad:
                self._keep_gradient(tensor)
        for tensor in touched.written:
            self._keep(tensor)
        result = func(*args, **kwargs)
        old = {places.address(t) for t in (*touched.read, *touched.written)}
        for tensor in places.tensors_in(result):
            if tensor.layout == torch.strided and places.address(tensor) not in old:
                self._made[places.address(tensor)] = tensor.untyped_storage()
        return result

    def _keep(self, tensor: torch.Tensor) -> None:
        if places.wraps_others(tensor):
            self.left.append(f"a {type(tensor).__name__}, a tensor that wraps others")
            return
        if tensor.layout != torch.strided:
            self.left.append(f"a tensor of layout {tensor.layout}")
            return
        where = places.address(tensor)
        if where not in self._made and where not in self._tensors:
            storage = tensor.untyped_storage()
            self._tensors[where] = KeptTensor(storage, storage.clone())

    def _keep_gradient(self, parameter: torch.Tensor) -> None:
        now = KeptGradient(parameter, parameter.grad)
        self._gradients.setdefault(id(parameter), self._noted.get(id(parameter), now))

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        if self._watching:
            if all(kept.optimizer() is not optimizer for kept in self._optimizers):
                self._keep_optimizer(optimizer)
            return  # what the step writes is seen
        if self._unstepped.pop(id(optimizer), None) is None:
            return
        state = self._keep_optimizer(optimizer)
        with _compat.unseen():  # the run may be one whose operations are counted
            for tensor in places.tensors_in([optimizer.param_groups, list(state.values())]):
                self._keep(tensor)

    def _keep_optimizer(self, optimizer: Optimizer) -> dict[Any, Any]:
        """Note what its dictionaries hold; return its state, copied but for the tensors."""
        for parameter in _parameters(optimizer):
            self._keep_gradient(parameter)
        options = [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
        state = {
            key: _compat.map_leaves(lambda value: value, values)
            for key, values in optimizer.state.items()
        }
        self._optimizers.append(KeptOptimizer(weakref.ref(optimizer), state, options))
        return state

    def put_back(self) -> None:
        """Undo what was changed, and say so in `changed` and `left`."""
        if self._hook is not None:
            self._hook.remove()
        if self._tensors:
            for tensor in self._tensors.values():
                tensor.storage.copy_(tensor.before)
            self.changed.append(f"{len(self._tensors)} tensors")
        for kept in self._optimizers:
            optimizer = kept.optimizer()
            if optimizer is not None:
                self._put_back_optimizer(optimizer, kept)
        renewed = [k for k in self._gradients.values() if k.parameter.grad is not k.gradient]
        for parameter, gradient in renewed:
            parameter.grad = gradient
        if renewed:
            self.changed.append(f"{len(renewed)} gradients")
        late = self._overwritten() - self._tensors.keys()
        if late:
            self.left.append(f"what later calls or other threads overwrote (tensors: {len(late)})")

    def _overwritten(self) -> set[int]:
        """Addresses of the tensors that were there before and have been changed since then."""
        now = [(seen.tensor(), seen.changes) for seen in self._seen]
        new = [t for t, before in now if t is not None and _compat.changes_of(t) != before]
        return {places.address(t) for t in new if t.layout == torch.strided and t.numel()}

    def _put_back_optimizer(self, optimizer: Optimizer, kept: KeptOptimizer) -> None:
        name = type(optimizer).__name__
        optimizer.state.clear()
        optimizer.state.update(kept.state)
        for group, options in zip(optimizer.param_groups, kept.options):
            if group.get("lr") != options.get("lr"):
                self.left.append(f"the schedule that changed the learning rate of {name}")
            group.update(options)
        self.changed.append(f"the state of {name}")


def _optimizers() -> list[Optimizer]:
    """All optimizers of this process but those that gc.freeze() hides."""
    return [thing for thing in gc.get_objects() if issubclass(type(thing), Optimizer)]


def _parameters(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    for group in getattr(optimizer, "param_groups", ()):  # none where __init__ has raised
        yield from group["params"]
