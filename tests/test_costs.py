"""The calculators' formulas: against the roofline, by invariants, and by hand."""

import math

import pytest

from d2lperf import Roofline
from d2lperf.ceilings import Ceilings
from d2lperf.costs import (
    all_reduce_s,
    all_reduce_traffic,
    communication_share,
    pipeline_idle,
    training_bytes,
    work_times,
)

WAYS = ("one server", "every worker serves", "ring", "halving and doubling")


@pytest.mark.parametrize("flops, bytes", [(1e6, 1e3), (1e12, 1e3), (1e9, 1e10)])
@pytest.mark.parametrize("calls", [1, 100])
def test_equal_calls_take_what_the_roofline_predicts(flops, bytes, calls):
    made = Ceilings({"float32": 1e11}, {"triad": 1e10}, 2e-6)
    one = Roofline(made).predict(flops / calls, bytes / calls)
    times = work_times(flops, bytes, calls, flops_per_s=1e11, bytes_per_s=1e10, overhead_s=2e-6)
    assert times.seconds == pytest.approx(calls * one.seconds)
    assert times.limit == one.regime.replace("compute", "arithmetic")


def test_what_is_divided_is_there_once():
    for optimizer in ("sgd", "momentum", "adam"):
        for precision in ("float32", "autocast", "16 bit"):
            options = {"optimizer": optimizer, "precision": precision, "batch": 3, "kept": 50}
            whole = training_bytes(1000, **options)
            held = [training_bytes(1000, stage=s, devices=4, **options) for s in range(4)]
            assert held[0] == whole
            assert held[3].total - whole.activations == pytest.approx(
                (whole.total - whole.activations) / 4
            )
            totals = [found.total for found in held]
            assert totals == sorted(totals, reverse=True)
            assert {found.activations for found in held} == {whole.activations}


def test_bytes_of_a_step_in_float32_and_in_zeros_mixed_precision():
    """Notebooks 06 and 08b: 4 + 4 + 8 bytes, and 2 + 2 + 12."""
    assert training_bytes(1000) == (4000, 4000, 8000, 0)
    assert training_bytes(1000, precision="16 bit") == (2000, 2000, 12000, 0)
    assert training_bytes(1, batch=1024, kept=8 * 512).activations == 4 * 8 * 1024 * 512
    stage_1 = training_bytes(1000, precision="16 bit", stage=1, devices=64)
    assert stage_1 == (2000, 2000, 12000 / 64, 0)


@pytest.mark.parametrize(
    "wrong", [{"optimizer": "adamw"}, {"precision": "int8"}, {"stage": 4}], ids=str
)
def test_unknown_choices_are_named(wrong):
    with pytest.raises(ValueError, match=repr(*wrong.values())):
        training_bytes(1000, **wrong)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 8, 64])
def test_every_way_of_two_is_the_same_and_none_sends_less_than_possible(n):
    for way in WAYS:
        chain, messages, share = all_reduce_traffic(way, n)
        assert messages >= chain >= 2
        assert messages >= 2 * math.log2(n)
        assert share >= 2 * (n - 1) / n
        seconds = all_reduce_s(way, n, 1e6, latency_s=1e-4, message_s=1e-5, bytes_per_s=1e9)
        assert seconds == pytest.approx(chain * 1e-4 + messages * 1e-5 + share * 1e-3)
    assert all_reduce_traffic("ring", 2) == all_reduce_traffic("halving and doubling", 2)
    with pytest.raises(ValueError, match="'star'"):
        all_reduce_traffic("star", n)


def test_a_ring_loses_by_its_latency_and_wins_by_its_bytes():
    """As notebook 09 measures it: one server is the quickest for small data."""
    options = {"latency_s": 1e-4, "message_s": 1e-6, "bytes_per_s": 1e9}
    small, large = [
        {way: all_reduce_s(way, 8, nbytes, **options) for way in WAYS} for nbytes in (1e3, 1e8)
    ]
    assert small["one server"] < small["ring"]
    assert large["ring"] < large["one server"]


def test_shares():
    assert communication_share(1, 0) == 0
    assert communication_share(1, 1) == 0.5
    assert pipeline_idle(1, 5) == 0
    assert pipeline_idle(2, 1) == 0.5
