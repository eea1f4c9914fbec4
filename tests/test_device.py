"""Devices and the machine's card, with machines that this one is not."""

import json
import os
import platform
import types
import warnings

import pytest
import torch

from d2lperf import device


@pytest.fixture
def accelerators(monkeypatch):
    """Pretend that the machine has some accelerators of a kind."""

    def pretend(count, kind="cuda"):
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.accelerator, "device_count", lambda: count)
        monkeypatch.setattr(
            torch.accelerator, "current_accelerator", lambda: torch.device(kind) if count else None
        )

    return pretend


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


def test_a_device_that_was_never_touched_is_left_alone(accelerators, monkeypatch):
    accelerators(1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda d: pytest.fail("touched"))
    device.synchronize()
    assert device.synchronizer() is None


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu.max": "nonsense\n"}, None),
        ({}, None),
    ],
)
def test_container_limits_on_cores(tmp_path, files, limit):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert device._cgroup_cpu_limit(tmp_path) == limit


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"memory.max": "1073741824\n"}, 2**30),
        ({"memory.max": "max\n"}, None),
        ({"memory/memory.limit_in_bytes": "1024\n"}, 1024),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        ({}, None),
    ],
)
def test_container_limits_on_memory(tmp_path, files, limit):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert device._cgroup_memory_limit(tmp_path) == limit


def test_usable_cores_is_the_least_of_mask_and_quota(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(device, "_cgroup_cpu_limit", lambda: None)
    assert device.usable_cores() == 8
    monkeypatch.setattr(device, "_cgroup_cpu_limit", lambda: 2.5)
    assert device.usable_cores() == 2
    monkeypatch.setattr(device, "_cgroup_cpu_limit", lambda: 0.3)
    assert device.usable_cores() == 1
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(device, "_cgroup_cpu_limit", lambda: None)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert device.usable_cores() == 5


def test_the_card_says_what_this_machine_is():
    card = device.describe_machine()
    assert card.torch_threads == torch.get_num_threads()
    assert card.versions["torch"] == torch.__version__
    assert 1 <= card.cores_usable <= card.cores_logical
    assert card.memory_bytes > 2**20
    assert card.processor in str(card)
    assert "<table>" in card._repr_html_()
    assert json.loads(json.dumps(card.to_dict())) == card.to_dict()
    assert device.Machine.from_dict(card.to_dict()) == card


def test_the_card_holds_no_host_user_or_path(monkeypatch):
    monkeypatch.setattr(platform, "node", lambda: "quiet-host-17")
    monkeypatch.setenv("USER", "somebody")
    monkeypatch.setenv("HOME", "/home/somebody")
    card = device.describe_machine()
    text = (str(card) + card._repr_html_() + json.dumps(card.to_dict())).lower()
    for secret in ("quiet-host-17", "somebody", "/home/somebody", os.getcwd().lower()):
        assert secret not in text


def test_a_backend_that_is_not_in_use_is_not_asked(accelerators, monkeypatch):
    accelerators(2)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: pytest.fail("set CUDA up"))
    assert device.machine_card(touch=False).accelerators == ("cuda device 0", "cuda device 1")


def test_html_is_escaped():
    card = device.describe_machine()
    odd = device.Machine.from_dict({**card.to_dict(), "processor": "<b>&"})
    assert "&lt;b&gt;&amp;" in odd._repr_html_()


@pytest.mark.parametrize(("count", "rung"), [(0, "CPU"), (1, "one GPU"), (4, "several GPUs")])
def test_the_rung_follows_the_accelerators(accelerators, monkeypatch, count, rung):
    accelerators(count)
    properties = types.SimpleNamespace(name="Toy 9000", total_memory=8 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: properties)
    card = device.describe_machine()
    assert card.rung == rung
    assert card.accelerators == ("Toy 9000, 8 GiB",) * count
    assert "rung" in card.rung_sentence


def test_accelerators_without_properties_are_still_named(accelerators):
    accelerators(1, "mps")
    assert device._accelerator_names() == ["mps device 0"]


def test_a_card_with_other_fields_is_refused():
    with pytest.raises(ValueError, match="has the fields"):
        device.Machine.from_dict({"processor": "x"})
