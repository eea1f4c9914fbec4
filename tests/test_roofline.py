import math
from dataclasses import replace

import pytest
import torch
from clocks import FakeClock, with_tools
from drawn import legend
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from d2lperf import Ceilings, Roofline, explain
from d2lperf.plotting import COLOURS

MIB = 2**20
MADE = Ceilings(
    flops={"float32": 1e11, "bfloat16": 3e11},
    bandwidth={"triad": 2e10, "copy": 2e10, "cache": 1e11, "new memory": 2e9},
    overhead_s=2e-6,
    functions=2e10,
    caches={"L2": MIB, "L3": 8 * MIB},
)
X = torch.ones(64, 64)


def counted(fn, **changes):
    return explain(fn, ceilings=replace(MADE, **changes), measured=False)


def step(net, x):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def run():
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()

    return run


def mlp(width):
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))


def chain(x, times):
    for _ in range(times):
        x = torch.relu(x) * 1.1
    return x


# ------------------------------------------------------------------------------------- regimes


LARGE, ROWS = torch.ones(2**22), torch.ones(4096, 1024)
IMAGES, WEIGHTS = torch.ones(8, 16, 32, 32), torch.ones(2048, 2048)
KNOWN = {
    "tiny mlp": ("overhead", lambda: mlp(8)(X[:, :8])),
    "many tiny operations": ("overhead", lambda: chain(X, 50)),
    "step of a tiny mlp": ("overhead", step(mlp(8), X[:, :8])),
    "small convolution": ("overhead", lambda: nn.Conv2d(1, 2, 3)(X[None, None, :8, :8])),
    "product": ("compute", lambda: ROWS[:512, :512] @ ROWS[:512, :512]),
    "convolution": ("compute", lambda: functional.conv2d(IMAGES, torch.ones(32, 16, 3, 3))),
    "step of a large mlp": ("compute", step(mlp(512), torch.ones(512, 512))),
    "chain on a large tensor": ("memory", lambda: chain(LARGE, 4)),
    "softmax": ("memory", lambda: torch.softmax(ROWS, 1)),
    "layer norm": ("memory", lambda: functional.layer_norm(ROWS, (1024,))),
    "sum": ("memory", lambda: LARGE.sum()),
    "embedding": (
        "memory",
        lambda: functional.embedding(torch.arange(4096), WEIGHTS.view(4096, 1024)),
    ),
    "linear of one row": ("memory", lambda: functional.linear(WEIGHTS[:1], WEIGHTS)),
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_regime_is_right(name):
    regime, fn = KNOWN[name]
    found = counted(fn)
    assert found.regime == regime
    assert sum(found.shares.values()) == pytest.approx(1)


def test_the_regime_follows_the_ceilings():
    def product():
        return ROWS[:512, :512] @ ROWS[:512, :512]

    assert counted(product, overhead_s=1).regime == "overhead"
    assert counted(product, flops={"float32": 1e15}).regime == "memory"


# ------------------------------------------------------------------------------------- counting


@pytest.mark.parametrize(
    "fn",
    [
        step(mlp(32), torch.ones(4, 32)),
        lambda: nn.Conv2d(3, 4, 3)(torch.ones(2, 3, 9, 9)).sum().backward(),
        lambda: torch.einsum("bij,bjk->bik", torch.ones(2, 3, 4), torch.ones(2, 4, 5)),
    ],
    ids=["mlp", "convolution", "batches"],
)
def test_products_count_as_torch_counts_them(fn):
    with FlopCounterMode(display=False) as torchs:
        fn()
    found = counted(fn).operations
    assert sum(op.flops for op, _ in found if op.kind == "product") == torchs.get_total_flops()


N = X.numel() * X.element_size()
OUT, TABLE = torch.empty_like(X), torch.ones(1000, 64)


@pytest.mark.parametrize(
    "fn, flops, size",
    [
        (lambda: X + X.clone(), 4096, 2 * N + 3 * N),
        (lambda: torch.add(X, 1, out=OUT), 4096, 2 * N),
        (lambda: OUT.mul_(X), 4096, 3 * N),
        (lambda: OUT.copy_(X), 0, 2 * N),
        (lambda: OUT.zero_(), 0, N),
        (lambda: X.t()[1:].unsqueeze(0).detach(), 0, 0),
        (lambda: torch.empty(1000), 0, 0),
        (lambda: X + X[:1].expand(64, 64), 4096, 2 * N + N // 64),
        (lambda: functional.embedding(torch.tensor([1, 2]), TABLE), 0, 2 * 2 * 64 * 4 + 16),
        (lambda: X.sum(), 4096, N + 4),
        (lambda: torch._foreach_add_([OUT, OUT.clone()], 1.0), 8192, 4 * N + 2 * N),
    ],
)
def test_the_rules_of_counting(fn, flops, size):
    found = counted(fn)
    assert (found.flops, found.bytes) == (flops, size)


def test_exponentials_have_a_rate_of_their_own():
    found = counted(lambda: torch.softmax(ROWS, 1), functions=1e6)
    assert found.regime == "compute"
    assert found.predicted_s == pytest.approx(ROWS.numel() / 1e6, rel=0.01)
    assert "functions" in found.help
    assert counted(lambda: torch.softmax(ROWS, 1), functions=0).regime == "memory"


def places(fn, **changes):
    total = {}
    for op, _ in counted(fn, **changes).operations:
        for place, size in op.bytes.items():
            total[place] = total.get(place, 0) + size
    return total


def test_what_was_used_a_short_while_ago_is_in_the_cache():
    a = torch.ones(MIB // 4)
    assert set(places(lambda: a.mul_(2))) == {"cache"}
    # A walk over twice the cache finds nothing there, however small its pieces are.
    pieces = [torch.ones(MIB // 4) for _ in range(8)]
    assert set(places(lambda: [piece.mul_(2) for piece in pieces])) == {"memory", "cache"}
    assert places(lambda: [piece.sum() for piece in pieces])["memory"] // MIB == 8
    assert set(places(lambda: a.mul_(2), caches={})) == {"memory"}


def test_large_results_are_new_memory():
    large = torch.ones(8 * MIB)
    assert places(lambda: large.relu()) == {"memory": 32 * MIB, "new memory": 32 * MIB}
    assert "new memory" not in places(lambda: large.relu_())
    assert "out=" in counted(lambda: large.relu()).help


@pytest.mark.parametrize(
    "name, word",
    [
        ("many tiny operations", "larger batch"),
        ("product", "bfloat16 are 3.0 times"),
        ("chain on a large tensor", "fusion"),
        ("linear of one row", "more rows"),
        ("sum", "fewer passes"),
    ],
)
def test_what_would_help(name, word):
    assert word in counted(KNOWN[name][1]).help


def test_no_precision_is_advised_at_the_highest_ceiling():
    half = ROWS[:512, :512].bfloat16()
    assert counted(lambda: half @ half).help.startswith("fewer FLOPs")


# ------------------------------------------------------------------------------------ explaining


def test_predicted_and_measured_time():
    clock = FakeClock()
    sleep = clock.work(0.004)

    def fn():
        sleep()
        return X + X

    found = with_tools(clock.instruments(), explain, fn, ceilings=MADE)
    assert found.measured_s == pytest.approx(0.004)
    assert found.predicted_s == MADE.overhead_s
    assert found.point == (4096, 3 * N - N, found.measured_s)
    text = str(found)
    assert "measured: 4.00 ms, 2e+03 times as much" in text
    assert "outside of torch's operations: 100% of the time" in text
    assert "limit: outside of torch (100% of the time)" in text
    assert "<table>" in found._repr_html_()
    assert "measured" not in str(counted(fn))
    assert math.isnan(counted(fn).measured_s)


def test_what_is_faster_than_predicted_needs_no_help():
    clock = FakeClock()
    sleep = clock.work(1e-7)
    found = with_tools(clock.instruments(), explain, lambda: X + (sleep() or X), ceilings=MADE)
    assert found.help.startswith("nothing: it is faster than predicted")


# -------------------------------------------------------------------------------------- roofline


def test_an_estimate_is_the_longest_of_three_times():
    predict = Roofline(MADE).predict
    assert predict(1e9, 8e6) == (0.01, "compute")
    assert predict(1e9, 8e6, torch.bfloat16) == (pytest.approx(1 / 300), "compute")
    assert predict(1e9, 8e6, torch.float64) == predict(1e9, 8e6)
    assert predict(0, 2e8) == (0.01, "memory")
    assert predict(0, 1e6) == (1e-5, "memory")  # fits into half of the cache
    assert predict(0, {"memory": 2e8, "new memory": 2e7}) == (0.02, "memory")
    assert predict(10, 10) == (2e-6, "overhead")


def test_a_convolution_in_float32_has_a_rate_of_its_own():
    flops, slower = (MADE.flops | {"convolution": rate} for rate in (4e11, 1.5e11))

    def seconds(dtype, **changes):
        images, kernels = IMAGES.to(dtype), torch.ones(32, 16, 3, 3, dtype=dtype)
        found = counted(lambda: functional.conv2d(images, kernels), **changes)
        return found.predicted_s, found.help

    (plain_s, _), (own_s, help) = seconds(torch.float32), seconds(torch.float32, flops=flops)
    assert plain_s == pytest.approx(4 * own_s)
    assert help.startswith("fewer FLOPs")  # products in bfloat16 are slower than this
    assert "products in bfloat16 are 2.0 times as fast" in seconds(torch.float32, flops=slower)[1]
    assert seconds(torch.bfloat16, flops=flops)[0] == pytest.approx(plain_s / 3)
    assert counted(lambda: X @ X, flops=flops).predicted_s == counted(lambda: X @ X).predicted_s


def test_figures():
    points = {"product": (1e9, 1e6, 0.02), "_softmax": (1e6, 1e6, 1e-3), "copy": (0, 1e6, 0.001)}
    ax = Roofline(MADE).plot(points)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert legend(ax) == ["roof of memory", "roof of cache", "product", "_softmax"]
    curve = next(line for line in ax.lines if len(line.get_xdata()) == 1)
    assert (*curve.get_xdata(), *curve.get_ydata()) == pytest.approx((1e3, 5e10))
    assert counted(lambda: X @ X).plot(ax=ax) is ax


def test_figures_take_a_palette():
    ax = Roofline(MADE).plot({"a product": (1e9, 1e6, 0.02)}, palette={"a product": "green"})
    assert COLOURS["green"] in {line.get_color() for line in ax.lines}
    ax = counted(lambda: X @ X).plot(palette={"mm": "purple", "all": "green"})
    assert {COLOURS["green"], COLOURS["purple"]} <= {line.get_color() for line in ax.lines}
