"""Devices, on machines with no, one and several accelerators of any kind."""

import json
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import toy_device
from fresh import run_fresh

from d2lperf import device


def test_without_accelerators_everything_is_the_cpu(accelerators):
    accelerators(0)
    assert device.num_gpus() == 0
    assert device.try_gpu() == torch.device("cpu")
    assert device.try_all_gpus() == [torch.device("cpu")]
    assert device.synchronizer() is None
    device.synchronize()


def test_a_missing_first_device_is_silent_a_missing_later_one_is_not(accelerators):
    accelerators(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert device.try_gpu(0) == torch.device("cpu")
    with pytest.warns(UserWarning, match=r"try_gpu\(3\).*sees 0.*CPU"):
        assert device.try_gpu(3) == torch.device("cpu")


@pytest.mark.parametrize("kind", ["cuda", "mps", "xpu"])
def test_accelerators_of_every_kind_count(accelerators, kind):
    accelerators(2, kind)
    assert device.num_gpus() == 2
    assert device.try_gpu(1) == torch.device(kind, 1)
    assert device.try_all_gpus() == [torch.device(kind, 0), torch.device(kind, 1)]
    with pytest.warns(UserWarning, match="sees 2"):
        assert device.try_gpu(2) == torch.device("cpu")


def test_gpu_names_a_device_whether_or_not_it_is_there(accelerators):
    accelerators(0)
    assert device.gpu(2) == torch.device("cuda:2")
    assert device.cpu() == torch.device("cpu")


@pytest.mark.parametrize("function", [device.gpu, device.try_gpu])
def test_device_numbers_are_checked(function):
    with pytest.raises(ValueError, match="Negative"):
        function(-1)
    for wrong in ("0", 1.0, True, None):
        with pytest.raises(TypeError, match="number of a device"):
            function(wrong)


def test_only_devices_in_use_are_waited_for(accelerators, monkeypatch):
    accelerators(3)
    waited = []
    monkeypatch.setattr(torch.accelerator, "synchronize", waited.append)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch._C, "_cuda_hasPrimaryContext", lambda i: i != 1, raising=False)
    device.synchronize()
    device.synchronizer()()
    assert [d.index for d in waited] == [0, 2, 0, 2]


@pytest.fixture
def waited(accelerators, monkeypatch):
    """Pretend that there are three devices of another kind; the indices that are waited for."""
    accelerators(3, "xpu")
    found = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device: found.append(device.index))
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 1)
    monkeypatch.setattr(torch.xpu, "is_initialized", lambda: True)
    return found


def test_devices_of_another_kind_are_waited_for_where_memory_is_in_use(waited, monkeypatch):
    reserved = {0: 0, 1: 64, 2: 4096}
    name = "memory_reserved"
    monkeypatch.setattr(torch.accelerator, name, lambda d: reserved[d.index], raising=False)
    device.synchronize()
    assert waited == [1, 2]


@pytest.mark.parametrize(("rank", "found"), [(False, [0, 1, 2]), (True, [1])])
def test_a_rank_waits_for_its_own_device_where_nobody_tells(waited, monkeypatch, rank, found):
    def refuse(device):
        raise RuntimeError("not for this kind of device")

    for module in (torch.accelerator, torch.xpu):
        monkeypatch.setattr(module, "memory_reserved", refuse, raising=False)
    monkeypatch.setattr(dist, "is_initialized", lambda: rank)
    device.synchronize()
    assert waited == found


def test_a_device_that_was_never_touched_is_left_alone(accelerators, monkeypatch):
    accelerators(1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda d: pytest.fail("touched"))
    device.synchronize()
    assert device.synchronizer() is None


TOY = """
import json, toy_device
toy_device.install({count})
import torch, d2lperf
d2lperf.synchronize()
with d2lperf.Benchmark():
    pass
measured = d2lperf.measure(lambda: None, budget_s=0.01)
card = d2lperf.describe_machine()
print(json.dumps([d2lperf.num_gpus(), str(d2lperf.try_gpu()), len(d2lperf.try_all_gpus()),
                  str(d2lperf.gpu({count})), card.rung, list(card.accelerators)]))
"""


@pytest.mark.skipif(not toy_device.supported(), reason="this torch has no hooks in Python")
@pytest.mark.parametrize(("count", "rung"), [(1, "one GPU"), (2, "several GPUs")])
def test_an_accelerator_that_torch_knows_nothing_of(count, rung):
    run = run_fresh(TOY.format(count=count), Path(__file__).parent)
    assert run.returncode == 0, run.stderr
    names = [f"Toy {i}, 8 GiB" for i in range(count)]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found == [count, "toy:0", count, f"toy:{count}", rung, names]
