"""What the ceilings follow from; the sizes of caches; the theoretical peak of a CPU."""

import pytest
import torch
from clocks import slow_clock, with_tools

from d2lperf import Ceilings, ceilings, measure_ceilings, peak

MIB = 2**20


def test_ceilings_follow_from_the_clock(monkeypatch, tmp_path):
    monkeypatch.setattr(ceilings, "CACHES", tmp_path)
    found = with_tools(slow_clock(), measure_ceilings, "cpu")
    assert found.flops["float32"] == pytest.approx(2 * 256**3 / 0.05)
    assert found.flops["convolution"] == pytest.approx(2 * (2 * 128 * 26**2) * 128 * 9 / 0.05)
    assert found.bandwidth["triad"] == pytest.approx(1.5 * found.bandwidth["copy"])
    assert found.flops["float64"] == pytest.approx(found.flops["float32"])
    assert found.bandwidth["memory, one row"] == pytest.approx(4 * 1024**2 / 0.05)
    assert found.bandwidth["memory, transposed"] == pytest.approx(8 * 1024**2 / 0.05)
    assert found.activations == pytest.approx(MIB // 4 / 0.05)
    assert found.overhead_s == pytest.approx(0.05)
    assert "cache" not in found.bandwidth
    assert found.cache_bytes == 0
    assert any("of unknown size" in note for note in found.notes)
    assert found.elapsed_s < 15
    assert len(found.samples["triad"]) >= 1
    text = str(found)
    assert "matrix products, float32" in text
    assert "convolutions, float32" in text
    assert "caches: unknown" in text

    found.save(tmp_path / "ceilings.json")
    assert Ceilings.load(tmp_path / "ceilings.json") == found


def test_convolutions_get_more_images_as_long_as_they_are_fast():
    tried, times = [], iter((1e-3, 1e-2, 3e-2))

    def add(name, flops, call):
        tried.append(flops)
        return next(times)

    ceilings._add_convolutions(torch.device("cpu"), add, [])
    assert [flops / tried[0] for flops in tried] == [1, 4, 16]


def test_a_device_without_convolutions_is_measured():
    def add(name, flops, call):
        raise RuntimeError("no kernel\nfor this")

    notes = []
    ceilings._add_convolutions(torch.device("cpu"), add, notes)
    assert notes == ["no convolutions: no kernel"]


def test_a_busy_machine_is_noticed(monkeypatch):
    # On a clock that counts looks, the small arrays of the cache get as much time as large ones.
    monkeypatch.setattr(ceilings, "cache_sizes", lambda: {"L3": 8 * MIB})
    found = with_tools(slow_clock(), measure_ceilings, "cpu")
    assert found.bandwidth["cache"] < found.bandwidth["triad"]
    assert "busy" in str(found)


def test_ceilings_are_measured_once_in_a_session(monkeypatch):
    monkeypatch.setattr(ceilings, "SAMPLING_S", 0.0)
    monkeypatch.setattr(ceilings, "_session", {})
    found = measure_ceilings("cpu")
    assert measure_ceilings("cpu") is found
    assert all(rate > 0 for rate in (*found.flops.values(), *found.bandwidth.values()))
    assert found.overhead_s > 0
    assert min(found.functions, found.activations) > 0
    assert "theoretical peak" in str(found)


def test_a_device_that_is_not_there(monkeypatch):
    monkeypatch.setattr(ceilings, "num_gpus", lambda: 1)
    there = ceilings.gpu()
    with pytest.raises(RuntimeError, match=rf"no device '{there.type}:1' here.* cpu, {there}\."):
        measure_ceilings(f"{there.type}:1")
    monkeypatch.setattr(ceilings, "num_gpus", lambda: 0)
    with pytest.raises(RuntimeError, match=f"no device '{there.type}' here. There are: cpu"):
        measure_ceilings(there.type)


def test_cache_sizes(monkeypatch, tmp_path):
    for i, (level, kind, size) in enumerate(
        [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2M")]
    ):
        folder = tmp_path / f"index{i}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    monkeypatch.setattr(ceilings, "CACHES", tmp_path)
    monkeypatch.setattr(ceilings.platform, "system", lambda: "Linux")
    assert ceilings.cache_sizes() == {"L1": 48 * 1024, "L2": 2 * MIB}
    monkeypatch.setattr(ceilings, "CACHES", tmp_path / "nothing")
    assert ceilings.cache_sizes() == {}


def test_cache_sizes_on_a_mac(monkeypatch, tmp_path):
    told = {"hw.l1dcachesize": "65536\n", "hw.l2cachesize": "4194304\n"}

    def sysctl(command, **options):
        return ceilings.subprocess.CompletedProcess(command, 0, stdout=told.get(command[-1], ""))

    monkeypatch.setattr(ceilings, "CACHES", tmp_path)
    monkeypatch.setattr(ceilings.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(ceilings.subprocess, "run", sysctl)
    assert ceilings.cache_sizes() == {"L1": 65536, "L2": 4 * MIB}


# ------------------------------------------------------------------------------------------ peak


CPUINFO = """processor	: 0
vendor_id	: {vendor}
cpu family	: {family}
model		: {model}
model name	: {name}
flags		: fpu sse {flags}
"""


def given(monkeypatch, tmp_path, clock="3000000", **values):
    known = {"vendor": "AuthenticAMD", "family": 25, "model": 1, "name": "AMD EPYC 7763"}
    (tmp_path / "cpuinfo").write_text(CPUINFO.format(**{**known, "flags": "avx2 fma", **values}))
    if clock:
        (tmp_path / "clock").write_text(clock)
    monkeypatch.setattr(peak, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(peak, "CLOCK", tmp_path / "clock")
    return peak.cpu_peak(cores=2)


XEON = {"vendor": "GenuineIntel", "family": 6, "model": 106}


@pytest.mark.parametrize(
    "values, lanes",
    [
        ({}, 16),
        ({"family": 23, "model": 49}, 16),
        ({"family": 23, "model": 1}, 8),  # the first Zen halves long vectors
        ({"family": 26, "name": "AMD EPYC 9755", "flags": "avx2 fma avx512f"}, 32),
        ({**XEON, "name": "Intel(R) Xeon(R) Platinum 8375C", "flags": "avx2 fma avx512f"}, 32),
        ({**XEON, "name": "Intel(R) Core(TM) i7-9700"}, 16),
    ],
)
def test_the_theoretical_peak(monkeypatch, tmp_path, values, lanes):
    found = given(monkeypatch, tmp_path, **values)
    assert found.flops == 2 * 3e9 * lanes * 2  # cores x clock x lanes x (multiply and add)


@pytest.mark.parametrize(
    "values, why",
    [
        ({"flags": "avx2 fma hypervisor"}, "the virtual machine hides the clock"),
        ({"clock": ""}, "does not report the highest clock"),
        ({"flags": "sse2"}, "not in our table"),
        ({**XEON, "name": "Intel(R) Xeon(R) Silver", "flags": "avx2 fma avx512f"}, "not in our"),
    ],
)
def test_a_peak_that_is_not_known(monkeypatch, tmp_path, values, why):
    found = given(monkeypatch, tmp_path, **values)
    assert found.flops is None
    assert why in found.how


def test_the_share_of_the_peak_is_shown():
    made = Ceilings({"float32": 1.5e11}, {"triad": 1e10}, 2e-6, theoretical=2e11)
    assert "theoretical peak, float32: 200 GFLOP/s; products reach 75% of it" in str(made)
