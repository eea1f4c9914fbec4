"""What travels between two processes: a pickle, and the memory of tensors and arrays beside it."""

import io
import marshal
import os
import pickle
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from types import CodeType
from typing import Any

import cloudpickle
import numpy as np
import torch

from d2lperf.processes.errors import WorkerError


class _Pickler(cloudpickle.Pickler):
    """Cloudpickle that does not copy the memory of tensors, and keeps the file names of code."""

    def reducer_override(self, x: Any) -> Any:
        # From 3.1.3 on, cloudpickle writes "<dynamic-code>" for the file: a worker's traceback
        # would have no source. The workers run this very Python, which marshal needs.
        if isinstance(x, CodeType):
            with suppress(ValueError):  # code whose constants are not those of a source
                return marshal.loads, (marshal.dumps(x),)
        if type(x) is torch.Tensor and not vars(x):
            with suppress(TypeError, RuntimeError):  # dtypes, layouts, devices that NumPy lacks
                return torch.from_numpy, (x.numpy(),)
        return super().reducer_override(x)


def pack(
    value: Any, refusal: str = "", advice: str = "", kind: type = WorkerError
) -> list[memoryview]:
    """Return the pickle of a value, then the memory of each of its tensors and arrays.

    Args:
        value: anything that cloudpickle takes.
        refusal, advice: what the error says before and after the reason.
        kind: the error's class.
    """
    stream, beside = io.BytesIO(), list[pickle.PickleBuffer]()
    try:
        _Pickler(stream, protocol=5, buffer_callback=beside.append).dump(value)
        # Not getbuffer(): a BytesIO that goes while its buffer is in use is an error (on stderr)
        # from Python 3.13 on. The memory of bytes lives as long as a view of it.
        return [memoryview(stream.getvalue()), *(buffer.raw() for buffer in beside)]
    except Exception as error:
        raise kind(f"{refusal}: {error}. {advice}") from error


def unpack(packed: Sequence[Any]) -> Any:
    """Return the value that `pack` took."""
    return pickle.loads(packed[0], buffers=packed[1:])


def send(link: Connection, kind: str, packed: Sequence[memoryview] = ()) -> None:
    """Write a message; nothing happens if the other process has ended, which is noticed later."""
    with suppress(ConnectionError):
        link.send((kind, [len(memory) for memory in packed]))
        for memory in packed:
            sent = 0
            while sent < len(memory):
                sent += os.write(link.fileno(), memory[sent:])


def receive(link: Connection) -> tuple[str, list[np.ndarray]]:
    """Read a message: its kind, and what was packed. EOFError: the other process has ended."""
    kind, sizes = link.recv()
    packed = [torch.empty(size, dtype=torch.uint8).numpy() for size in sizes]  # aligned for torch
    for array in packed:
        memory, got = array.data, 0
        while got < len(memory):
            count = os.readv(link.fileno(), [memory[got:]])
            if count == 0:
                raise EOFError
            got += count
    return kind, packed
