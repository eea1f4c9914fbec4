"""Puts back what a function changes, so that a training step can be run hundreds of times.

The function's first run is watched: what torch's operations write into memory that was there before
is copied first. That covers parameters, buffers such as the statistics of batch norm, and the
moments of an optimizer. Gradients and what optimizers keep in dictionaries are noted, too. With
gradient accumulation an optimizer steps in a later run: its parameters and moments are copied then.
Python's own state cannot be seen: iterators, counters, attributes that are assigned anew.
"""

from __future__ import annotations

import gc
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

    optimizer: Optimizer
    state: dict[Any, dict]
    options: list[dict]


class KeptGradient(NamedTuple):
    """A parameter and the gradient that it had."""

    parameter: torch.Tensor
    gradient: torch.Tensor | None


class StateKeeper(TorchDispatchMode):
    """Watches what runs in its with-block; `put_back` undoes what was changed since it began.

    Until then it also sees the first step of each optimizer. Those that the function itself makes
    need no care.

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
        self._unstepped: dict[int, Optimizer] = {}  # they were there before
        self._gradients: dict[int, KeptGradient] = {}
        self._made: dict[int, torch.UntypedStorage] = {}  # by this run; kept so that none is reused
        self._watching = False
        self._hook: RemovableHandle | None = None

    def __enter__(self) -> StateKeeper:
        there = [thing for thing in gc.get_objects() if issubclass(type(thing), Optimizer)]
        self._unstepped = {id(optimizer): optimizer for optimizer in there}
        for optimizer in there:  # zero_grad() may drop gradients before anything is read
            for group in getattr(optimizer, "param_groups", ()):  # none where __init__ has raised
                for parameter in group["params"]:
                    self._gradients[id(parameter)] = KeptGradient(parameter, parameter.grad)
        self._hook = register_optimizer_step_pre_hook(self._before_step)
        self._watching = True
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        self._watching = False
        self._made.clear()
        super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Copy what an operation is about to overwrite, then run it."""
        kwargs = kwargs or {}
        touched = touched_by(func, args, kwargs, None)
        for tensor in touched.read:
            if tensor.is_leaf and tensor.requires_grad:
                self._gradients.setdefault(id(tensor), KeptGradient(tensor, tensor.grad))
        for tensor in touched.written:
            self._keep(tensor)
        result = func(*args, **kwargs)
        old = {places.address(t) for t in (*touched.read, *touched.written)}
        for tensor in places.tensors_in(result):
            if tensor.layout == torch.strided and places.address(tensor) not in old:
                self._made[places.address(tensor)] = tensor.untyped_storage()
        return result

    def _keep(self, tensor: torch.Tensor) -> None:
        if tensor.layout != torch.strided:
            self.left.append(f"a tensor of layout {tensor.layout}")
            return
        where = places.address(tensor)
        if where not in self._made and where not in self._tensors:
            storage = tensor.untyped_storage()
            self._tensors[where] = KeptTensor(storage, storage.clone())

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._unstepped.pop(id(optimizer), None) is None:
            return
        options = [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
        state = {parameter: _copied(values) for parameter, values in optimizer.state.items()}
        self._optimizers.append(KeptOptimizer(optimizer, state, options))
        if self._watching:
            return  # what the step writes is seen
        with _compat.unseen():  # the run may be one whose operations are counted
            for tensor in places.tensors_in([optimizer.param_groups, list(state.values())]):
                self._keep(tensor)

    def put_back(self) -> None:
        """Undo what was changed, and say so in `changed` and `left`."""
        if self._hook is not None:
            self._hook.remove()
        if self._tensors:
            for tensor in self._tensors.values():
                tensor.storage.copy_(tensor.before)
            self.changed.append(f"{len(self._tensors)} tensors")
        for optimizer in self._optimizers:
            self._put_back_optimizer(optimizer)
        renewed = [k for k in self._gradients.values() if k.parameter.grad is not k.gradient]
        for parameter, gradient in renewed:
            parameter.grad = gradient
        if renewed:
            self.changed.append(f"{len(renewed)} gradients")

    def _put_back_optimizer(self, kept: KeptOptimizer) -> None:
        name = type(kept.optimizer).__name__
        kept.optimizer.state.clear()
        kept.optimizer.state.update(kept.state)
        for group, options in zip(kept.optimizer.param_groups, kept.options):
            if group.get("lr") != options.get("lr"):
                self.left.append(f"the schedule that changed the learning rate of {name}")
            group.update(options)
        self.changed.append(f"the state of {name}")


def _copied(state: dict) -> dict:
    """What an optimizer keeps of a parameter: new dictionaries and lists of the same tensors."""
    return _compat.map_leaves(lambda value: value, dict(state))
