"""The machine's card, on machines that this one is not."""

import json
import os
import platform
import types

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from d2lperf import machine


@pytest.fixture
def files(monkeypatch, tmp_path):
    """Files of a container's limits: `files({"cpu.max": "150000 100000"})`."""
    monkeypatch.setattr(machine, "CGROUP", tmp_path)

    def write(texts):
        for name, text in texts.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)

    return write


@pytest.mark.parametrize(
    ("texts", "limits"),
    [
        ({"cpu.max": "150000 100000\n"}, (1.5, None)),
        ({"cpu.max": "max 100000\n"}, (None, None)),
        ({"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}, (0.5, None)),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, (None, None)),
        ({"cpu.max": "nonsense\n", "memory.max": "1073741824\n"}, (None, 2**30)),
        ({"memory.max": "max\n"}, (None, None)),
        ({"memory/memory.limit_in_bytes": "1024\n"}, (None, 1024)),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_container_limits(files, texts, limits):
    files(texts)
    assert machine.container_limits() == limits


def test_usable_cores_is_the_least_of_mask_and_quota(files, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert machine.usable_cores() == 8
    files({"cpu.max": "250000 100000"})
    assert machine.usable_cores() == 2
    files({"cpu.max": "30000 100000"})
    assert machine.usable_cores() == 1
    files({"cpu.max": "max 100000"})
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert machine.usable_cores() == 5


def test_the_card_says_what_this_machine_is():
    card = machine.describe_machine()
    assert card.torch_threads == torch.get_num_threads()
    assert card.versions["torch"] == torch.__version__
    assert 1 <= card.cores_usable <= card.cores_logical
    assert card.memory_bytes > 2**20
    assert card.processor in str(card)
    assert "<table>" in card._repr_html_()
    assert machine.Machine.from_dict(json.loads(json.dumps(card.to_dict()))) == card


@pytest.mark.parametrize(
    ("vectors", "known", "shown"),
    [
        ("AVX2", {"avx2": True, "avx512_bf16": False}, "AVX2, no bfloat16"),
        ("AVX512", {"avx512_bf16": True}, "AVX512, bfloat16"),
        ("AVX512", {"amx_bf16": True}, "AVX512, bfloat16"),
        ("DEFAULT", {"neon": True, "bf16": True}, "DEFAULT, bfloat16"),
        ("AVX2", None, "AVX2"),
    ],
)
def test_processors_of_one_name_are_told_apart(monkeypatch, vectors, known, shown):
    """Many virtual machines say "AMD EPYC" and no more."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: vectors)
    if known is None:
        monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    else:
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known, raising=False)
    assert f"\ninstructions  {shown}\n" in str(machine.describe_machine())


def test_memory_is_what_the_container_allows(files):
    files({"memory.max": "1048576"})
    assert machine.describe_machine().memory_bytes == 2**20


def test_the_card_holds_no_host_user_or_path(monkeypatch):
    monkeypatch.setattr(platform, "node", lambda: "quiet-host-17")
    monkeypatch.setenv("USER", "somebody")
    monkeypatch.setenv("HOME", "/home/somebody")
    card = machine.describe_machine()
    text = (str(card) + card._repr_html_() + json.dumps(card.to_dict())).lower()
    for secret in ("quiet-host-17", "somebody", "/home/somebody", os.getcwd().lower()):
        assert secret not in text


@given(st.sets(st.sampled_from(sorted(machine.Machine.__dataclass_fields__))))
def test_a_card_of_another_version_can_be_read(missing):
    """The first edition raised ValueError, so saved results broke with every new field."""
    values = machine.describe_machine().to_dict()
    values = {k: v for k, v in values.items() if k not in missing} | {"cache_bytes": 2**20}
    card = machine.Machine.from_dict(values)
    assert str(card) and card.rung
    assert all(
        getattr(card, k) == getattr(machine.describe_machine(), k)
        for k in machine.Machine.__dataclass_fields__
        if k not in missing
    )


@pytest.fixture
def two_gpus(accelerators, monkeypatch):
    """Pretend that there are two devices of CUDA; `asked` records who wants their names."""
    asked = []

    def properties(index):
        asked.append(index)
        return types.SimpleNamespace(name=f"Toy {index}", total_memory=8 * 2**30)

    accelerators(2)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    return asked


def test_accelerators_are_named_with_their_memory(two_gpus):
    assert machine.describe_machine().accelerators == ("Toy 0, 8 GiB", "Toy 1, 8 GiB")


def test_an_accelerator_that_is_not_in_use_is_not_asked(two_gpus):
    names = machine.machine_card(touch=False).accelerators
    assert names == ("cuda device 0", "cuda device 1") and not two_gpus


def test_accelerators_without_properties_are_still_named(two_gpus, monkeypatch):
    monkeypatch.delattr(torch.cuda, "get_device_properties")
    assert machine.describe_machine().accelerators == ("cuda device 0", "cuda device 1")


@pytest.mark.parametrize(("count", "rung"), [(0, "CPU"), (1, "one GPU"), (4, "several GPUs")])
def test_the_rung_follows_the_accelerators(count, rung):
    card = machine.Machine(accelerators=("Toy",) * count)
    assert card.rung == rung
