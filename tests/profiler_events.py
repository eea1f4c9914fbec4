"""Events as torch's profiler lists them, for tests without a device."""

import types

import torch

from d2lperf.timeline.record import CALL, timeline_of

PID = 4711
DEVICE = torch.autograd.DeviceType
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync")


def event(category, name, start_us, duration_us, device=PID, resource=1, kind=DEVICE.CUDA):
    """One event: a host's device is its process and its resource a thread; a device's resource is
    a stream. Times count from 1970, in nanoseconds."""
    says = {
        "name": name,
        "activity_type": category,
        "device_type": kind if category in ON_DEVICE else DEVICE.CPU,
        "device_index": device,
        "device_resource_id": resource,
        "start_thread_id": 1,
        "start_ns": 1_700_000_000_000_000_000 + round(1000 * start_us),
        "duration_ns": round(1000 * duration_us),
        "is_user_annotation": category.endswith("user_annotation"),
    }
    return types.SimpleNamespace(**{key: lambda value=value: value for key, value in says.items()})


def crossing():
    """A recording in which spans of a lane cross."""
    events = [
        event("user_annotation", CALL, 1, 8),
        event("kernel", "gemm", 2, 2, 0, 7),
        event("kernel", "gemm", 3.999, 1.001, 0, 7),
        event("kernel", "inside", 4.1, 0.1, 0, 7),
    ]
    return timeline_of(events, {}, called_ns=123_456_789)
