"""`explain`: what it puts back, what it says where it cannot count, data sheets, advice."""

import copy
import gc
import io
import itertools
import math
import os
import re
import sys
import threading
import time
import weakref
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from clocks import FakeClock, SlowTorch, slow_clock, with_tools
from fresh import run_python
from torch import nn
from torch.nn import functional
from torch.optim import optimizer as optimizers

from d2lperf import Ceilings, datasheet, explain
from d2lperf.__main__ import main
from d2lperf.counting import OperationCounter
from d2lperf.datasheets import ACCELERATORS
from d2lperf.explaining import stacks

MADE = Ceilings(
    flops={"float32": 1e11, "float64": 2e10, "bfloat16": 3e11},
    bandwidth={"triad": 2e10, "cache": 1e11, "new memory": 2e9, "memory, one row": 1e10},
    overhead_s=2e-6,
    functions=2e9,
    activations=8e9,
    caches={"L3": 8 * 2**20},
)
X = torch.rand(256, 256)


def counted(fn, **options):
    return explain(fn, ceilings=options.pop("ceilings", MADE), measured=False, **options)


# --------------------------------------------------------------------------------- blind spots


def test_a_product_with_a_vector_has_a_bandwidth_of_its_own():
    matrix, row = torch.rand(4096, 1024), torch.rand(1024)
    size = matrix.nbytes + row.nbytes + 4096 * 4
    assert counted(lambda: matrix @ row).predicted_s == pytest.approx(size / 1e10, rel=0.2)


def test_a_sparse_tensor_is_no_error():
    sparse = torch.eye(256).to_sparse()
    assert set(counted(lambda: sparse @ X).uncounted) == {"mm"}


class Wrapped(torch.Tensor):
    """A tensor without memory of its own: `inner` has the numbers, and does the operations."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        made = func(*(getattr(value, "inner", value) for value in args), **(kwargs or {}))
        return cls(made)


def test_a_tensor_that_wraps_others_is_counted_by_what_it_does():
    wrapped = Wrapped(X)
    assert counted(lambda: wrapped @ wrapped).flops == 2 * 256**3
    ragged = torch.nested.nested_tensor([X[:3], X[:5]], layout=torch.jagged)
    assert counted(lambda: ragged @ X).flops == 2 * 8 * 256**2


class Watched(torch.Tensor):
    """A tensor with memory, whose class is asked before each operation."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return super().__torch_dispatch__(func, types, args, kwargs or {})


def test_a_tensor_of_another_class_with_memory_is_counted_as_it_is():
    watched = X.as_subclass(Watched)
    assert counted(lambda: watched @ watched).flops == 2 * 256**3


def test_what_a_wrapped_tensor_held_is_put_back():
    wrapped = Wrapped(torch.zeros(4))
    assert counted(lambda: wrapped.add_(1)).changed == ["1 tensors"]
    assert torch.equal(wrapped.inner, torch.zeros(4))


def test_the_gradient_of_a_wrapped_tensor_is_put_back():
    wrapped = Wrapped(torch.ones(4)).requires_grad_()
    report = counted(lambda: (wrapped * wrapped).sum().backward())
    assert wrapped.grad is None and "1 gradients" in report.changed


def test_a_wrapped_weight_that_a_later_call_may_change_is_reported():
    wrapped, calls = Wrapped(torch.ones(4)).requires_grad_(), itertools.count()
    optimizer = torch.optim.SGD([wrapped], lr=0.1)

    def step():
        (wrapped * wrapped).sum()
        if next(calls) >= 1:
            optimizer.step()

    assert "a Wrapped, a tensor that wraps others" in counted(step).left


def test_products_in_float64_have_a_ceiling_of_their_own():
    wide = X.double()
    single, double = counted(lambda: X @ X), counted(lambda: wide @ wide)
    assert double.predicted_s == pytest.approx(5 * single.predicted_s)
    assert "lower precision" in double.help
    assert "no ceiling" not in str(double)
    unknown = Ceilings({"float32": 1e11}, {"triad": 2e10}, 2e-6)
    found = counted(lambda: wide @ wide, ceilings=unknown)
    assert "no ceiling for products in float64: that of float32 is used" in str(found)


def test_what_is_not_counted_is_in_the_prediction_as_measured():
    found = with_tools(slow_clock(1.0), counted, X.sort)
    (sort,) = [op for op, _ in found.operations if op.name == "sort"]
    assert sort.seconds == 1.0
    assert found.predicted_s == pytest.approx(1.0)
    assert (found.regime, found.shares, found.uncounted) == ("not known", {}, {"sort": 1})
    assert found.help == "not known: nobody counts the work of sort"
    text = str(found)
    assert "not counted: sort, 100% of the time" in text
    assert "limit: not known (100% of the time is not counted)" in text
    assert "memory 1" not in text
    assert not counted(lambda: X @ X).uncounted


def on_a_slow_torch(fn, waiting_s, **seconds):
    """Explain a function that waits first; each operation takes its seconds, or none."""
    clock = FakeClock()
    sleep = clock.work(waiting_s)
    with SlowTorch(clock, seconds):
        return with_tools(clock.instruments(), explain, lambda: (sleep(), fn()), ceilings=MADE)


@pytest.mark.parametrize("waiting_s", [0.0, 1e-3, 6e-3])
def test_the_parts_add_up_to_the_whole(waiting_s):
    """In seconds, before they are made shares: 2 ms of sorting, 1 ms of products, and the rest."""
    found = on_a_slow_torch(lambda: (X.sort(), X @ X), waiting_s, sort=2e-3, mm=1e-3)
    assert found.measured_s == pytest.approx(3e-3 + waiting_s)
    inside_s = sum(op.seconds for op, _ in found.operations)
    assert inside_s + found.outside * found.measured_s == pytest.approx(found.measured_s)
    shares = {part.operation.name: part.share * found.measured_s for part in found.parts}
    assert shares == pytest.approx({"sort": 2e-3, "mm": 1e-3})


def test_the_shares_that_are_shown_add_up():
    def many():
        for name in names:
            getattr(X, name)()

    names = ["abs", "exp", "floor", "log1p", "neg", "relu", "round", "sin", "sqrt", "tanh"]
    text = str(on_a_slow_torch(many, waiting_s=1e-2, **dict.fromkeys(names, 1e-3)))
    assert "and 2 more kinds: 10% of the time" in text
    table = text.partition("one call:")[0]
    assert sum(map(int, re.findall(r"(\d+)%", table))) == 100


def test_no_profile_is_advised_where_the_time_passes_outside_of_torch():
    assert "profile" not in on_a_slow_torch(lambda: X @ X, waiting_s=4e-3, mm=4e-4).help


# ----------------------------------------------------------------------------------- the state


@pytest.mark.parametrize("before", [0, 2], ids=["first step", "later step"])
@pytest.mark.parametrize(
    "kind, options",
    [
        (torch.optim.Adam, {}),
        (torch.optim.Adam, {"foreach": False}),
        (torch.optim.AdamW, {"fused": True}),
        (torch.optim.SGD, {"momentum": 0.9, "lr": 0.1}),
    ],
)
def test_a_training_step_leaves_no_trace(kind, options, before):
    torch.manual_seed(0)
    layers = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 1)
    model, x = nn.Sequential(nn.Sequential(*layers)), torch.rand(4, 8)
    optimizer = kind(model.parameters(), **options)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    for _ in range(before):
        step()
    optimizer.zero_grad()
    expected = copy.deepcopy([model.state_dict(), optimizer.state_dict()])
    random = torch.get_rng_state()
    found = explain(step, ceilings=MADE, measured=False)
    torch.testing.assert_close(
        [model.state_dict(), optimizer.state_dict()], expected, rtol=0, atol=0
    )
    assert torch.equal(torch.get_rng_state(), random)
    assert all(p.grad is None for p in model.parameters())
    assert f"called {found.runs} times; put back: " in str(found)
    assert f"the state of {kind.__name__}" in str(found)
    assert "changed for good" not in str(found)
    step()  # and it can go on


def accumulating(model, optimizer, every):
    """A step that adds to the gradients, and steps the optimizer at every n-th call."""
    x, calls = torch.rand(4, 8), itertools.count(1)

    def step():
        model(x).square().mean().backward()
        if next(calls) % every == 0:
            optimizer.step()
            optimizer.zero_grad()

    return step


@pytest.mark.parametrize("before", [0, 2], ids=["first step", "later step"])
@pytest.mark.parametrize("every", [2, 4])
@pytest.mark.parametrize("kind", [torch.optim.Adam, partial(torch.optim.SGD, momentum=0.9)])
def test_an_optimizer_that_steps_in_a_later_call_leaves_no_trace(kind, every, before):
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimizer = kind(model.parameters(), lr=0.1)
    for _ in range(before):
        accumulating(model, optimizer, every=1)()
    accumulating(model, optimizer, every)()
    gradients = [p.grad for p in model.parameters()]
    expected = copy.deepcopy([model.state_dict(), optimizer.state_dict(), gradients])
    found = on_a_slow_torch(accumulating(model, optimizer, every), 0.0, addmm=1e-3)
    assert found.runs > every
    assert all(p.grad is gradient for p, gradient in zip(model.parameters(), gradients))
    torch.testing.assert_close(
        [model.state_dict(), optimizer.state_dict(), gradients], expected, rtol=0, atol=0
    )
    assert f"the state of {type(optimizer).__name__}" in str(found)
    assert "changed for good" not in str(found)


def test_copies_of_the_state_are_not_counted():
    model = nn.Linear(8, 1)
    found = counted(accumulating(model, torch.optim.SGD(model.parameters()), every=2))
    names = [op.name for op, _ in found.operations]
    assert "the state of SGD" in str(found)
    assert found.runs == 2 and "addmm" in names
    assert not {"set_", "copy_"} & {*names}


def test_without_measuring_two_runs_are_enough_for_what_is_not_counted():
    found = counted(lambda: X.sort())
    assert found.runs == 2
    assert not found.operations[0][0].counted and found.operations[0][0].seconds > 0


def test_an_optimizer_that_the_function_makes_is_not_kept():
    made, alive, weight = [], [], nn.Parameter(torch.ones(2))

    def fit():
        gc.collect()
        alive.append(sum(one() is not None for one in made))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        made.append(weakref.ref(optimizer))
        weight.sum().backward()
        optimizer.step()

    found = counted(fit)
    assert len(alive) == found.runs > 1 and not any(alive)
    assert weight.tolist() == [1, 1] and "SGD" not in str(found)


@pytest.mark.parametrize("every", [1, 2], ids=["in its first run", "later"])
def test_an_optimizer_that_the_function_makes_once_starts_anew(every):
    model, made, calls = nn.Linear(2, 1), [], itertools.count(1)
    before = copy.deepcopy(model.state_dict())

    def step():
        if not made:
            made.append(torch.optim.Adam(model.parameters(), lr=0.1))
        model(torch.ones(1, 2)).sum().backward()
        if next(calls) % every == 0:
            made[0].step()

    assert "the state of Adam" in str(counted(step))
    assert not made[0].state
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


def test_a_frozen_optimizer_is_put_back():
    """Training scripts call gc.freeze(), which hides what is there from the garbage collector."""
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([weight], lr=0.1)

    def step():
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()

    gc.freeze()
    try:
        counted(step)
    finally:
        gc.unfreeze()
    assert weight.tolist() == [1, 1] and not optimizer.state


def test_what_another_thread_trains_is_left_alone():
    weight = nn.Parameter(torch.ones(2))
    optimizer, x = torch.optim.SGD([weight], lr=0.1), torch.ones(4, 4)

    def train():
        weight.sum().backward()
        optimizer.step()

    def fn():
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
        return x @ x

    found = counted(fn)
    assert "put back" not in str(found) and "other threads overwrote (tensors: 1)" in str(found)
    steps = sum(range(found.runs + 1))  # each adds to the gradient
    assert weight.tolist() == pytest.approx([1 - 0.1 * steps] * 2)


def test_an_optimizer_may_keep_a_plain_value():
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.state["epoch"] = 3
    weight.grad = torch.ones(2)
    counted(optimizer.step)
    assert optimizer.state["epoch"] == 3 and weight.tolist() == [1, 1]


def test_lists_of_an_optimizer_are_put_back():
    layer = nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=3)

    def loss():
        optimizer.zero_grad()
        found = (layer(torch.eye(4)) - torch.arange(4.0)[:, None]).square().mean()
        found.backward()
        return found

    def lengths():
        (state,) = optimizer.state.values()
        return {name: len(value) for name, value in state.items() if isinstance(value, list)}

    optimizer.step(loss)
    before, weight = lengths(), layer.weight.tolist()
    counted(lambda: optimizer.step(loss))
    assert before["old_dirs"] > 0
    assert (lengths(), layer.weight.tolist()) == (before, weight)


@pytest.mark.parametrize("last", [1, 3], ids=["first call", "later call"])
def test_the_state_is_put_back_where_the_function_raises(last):
    x, calls = torch.zeros(3), itertools.count(1)

    def fn():
        x.add_(1)
        if next(calls) == last:
            raise KeyError("in the step")

    with pytest.raises(KeyError):
        on_a_slow_torch(fn, 0.0, add_=1e-3)
    assert x.tolist() == [0, 0, 0]
    assert not optimizers._global_optimizer_pre_hooks


def test_a_view_is_put_back_in_its_whole():
    x = torch.zeros(4)
    counted(lambda: x[1:3].add_(1))
    assert x.tolist() == [0] * 4


def test_accumulated_gradients_are_put_back():
    layer, x = nn.Linear(2, 1), torch.ones(1, 2)
    layer(x).sum().backward()
    before = layer.weight.grad.clone()
    counted(lambda: layer(x).sum().backward())
    assert torch.equal(layer.weight.grad, before)


def test_gradients_that_are_dropped_at_once_are_put_back():
    layer, x = nn.Linear(2, 1), torch.ones(1, 2)
    optimizer = torch.optim.SGD(layer.parameters())
    with pytest.raises(ValueError, match="Invalid learning rate") as refused:
        torch.optim.SGD(layer.parameters(), lr=-1.0)
    layer(x).sum().backward()
    before = layer.weight.grad

    def step():
        optimizer.zero_grad()
        layer(x).sum().backward()

    counted(step)
    assert layer.weight.grad is before and before.tolist() == [[1, 1]]
    assert refused.tb  # holds an optimizer without parameters


def test_a_schedule_is_reported():
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def step():
        weight.sum().backward()
        optimizer.step()
        schedule.step()

    found = counted(step)
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert "changed for good: the schedule" in str(found)


def test_what_only_a_later_call_overwrites_is_reported():
    mean, calls = torch.zeros(4), itertools.count(1)

    def step():
        X.relu().add_(1)  # what the call itself has made is no change
        if next(calls) == 100:  # its operations are not counted
            mean[1:].add_(1)

    text = str(explain(step, ceilings=MADE))
    assert "changed for good: what later calls or other threads overwrote (tensors: 1)" in text
    assert "put back" not in text
    assert "changed for good" not in str(counted(lambda: mean.add_(1)))


def test_what_the_function_has_made_itself_is_no_change():
    made, calls = [], itertools.count(1)

    def step():
        if next(calls) == 1:
            made.append(torch.zeros(4))
        made[0].add_(1)

    assert "changed" not in str(counted(step))


def test_without_a_prediction_there_is_no_quotient():
    free = Ceilings({"float32": 1e11}, {"triad": 1e10}, 0.0)
    found = with_tools(slow_clock(), explain, X.t, ceilings=free)
    assert found.predicted_s == 0
    assert "measured: " in str(found) and "times as much" not in str(found)


# ------------------------------------------------------------------------------- data sheets


def test_an_accelerator_that_is_not_here():
    half = torch.rand(1024, 1024).bfloat16()
    found = explain(lambda: half @ half, ceilings=datasheet("H100 SXM"))
    # by hand: 2 * 1024 ** 3 FLOPs at 989 TFLOP/s, or three matrices of 2 MiB at 3.35 TB/s
    assert found.predicted_s == pytest.approx(max(2 * 1024**3 / 989e12, 3 * 2 * 1024**2 / 3.35e12))
    assert math.isnan(found.measured_s)
    text = str(found)
    where = "on an NVIDIA H100 SXM by its data sheet"
    assert f"predicted {where}: 2.17 µs, overhead not included" in text
    assert ACCELERATORS["NVIDIA H100 SXM"].source in text
    assert "measured" not in text


@pytest.mark.parametrize(
    ("name", "words"),
    [("Google TPU7x", "on a Google TPU7x by"), ("AMD MI300X", "on an AMD MI300X by")],
)
def test_the_article_is_that_of_the_device(name, words):
    half = torch.ones(8, 8).bfloat16()
    assert words in str(explain(lambda: half @ half, ceilings=datasheet(name)))


def test_what_is_not_counted_is_not_predicted_for_another_machine():
    found = explain(lambda: (X.sort(), X @ X), ceilings=datasheet("H100 SXM"))
    assert found.predicted_s < 1e-5
    assert "by its data sheet: at least" in str(found)


@pytest.mark.parametrize("name", ACCELERATORS)
def test_every_data_sheet_has_a_source(name):
    made = datasheet(name)
    assert made.source.startswith("https://")
    assert made.read
    assert made == datasheet(name.partition(" ")[2])
    assert name in str(made)
    half = torch.ones(64, 64, dtype=torch.bfloat16 if "bfloat16" in made.flops else torch.float16)
    assert explain(lambda: (half @ half).relu() + 1.0, ceilings=made).predicted_s > 0


def test_a_product_without_a_rate():
    with pytest.raises(ValueError, match="product in float32 cannot be predicted for Google TPU7x"):
        explain(lambda: X @ X, ceilings=datasheet("TPU7x"))


# ----------------------------------------------------------------------------- outside of torch


def test_a_step_that_waits_for_its_data():
    found = on_a_slow_torch(lambda: (X @ X).sum().item(), waiting_s=0.1)
    assert found.regime == "outside of torch"
    assert "DataLoader with num_workers" in found.help
    assert "transform" in found.help
    assert ".item() less often (1 in a call" in found.help
    assert found.levers()[0].gain > 100


def test_the_functions_that_take_the_time_are_named():
    def load_slowly(sampler):
        while not sampler.seen:
            time.sleep(1e-4)

    with stacks.StackSampler() as sampler:
        load_slowly(sampler)
    (name,) = {name.split(" ")[0] for name in sampler.seen}
    assert name == "load_slowly"
    assert sum(sampler.shares().values()) == pytest.approx(1)


def test_the_advice_names_the_function_that_waits():
    def load_a_batch():
        time.sleep(2e-2)  # for the sampler; the regime is decided by the clock, which is not real

    found = on_a_slow_torch(lambda: (load_a_batch(), X @ X), waiting_s=0.1)
    assert "goes to: load_a_batch (test_explaining.py:" in found.help


def test_a_quick_function_is_called_thousands_of_times_and_a_slow_one_about_five():
    assert on_a_slow_torch(X.t, waiting_s=1e-6).runs > 2000
    assert 4 <= on_a_slow_torch(X.relu, waiting_s=2.0).runs <= 6
    said = f"{explain.__doc__}{parser_help()}"
    assert "hundred" not in said and said.count("thousands") == 2


def parser_help():
    """What `python -m d2lperf explain --help` prints."""
    with pytest.raises(SystemExit), redirect_stdout(io.StringIO()) as printed:
        main(["explain", "--help"])
    return printed.getvalue()


def test_time_inside_an_operation_is_not_outside():
    frames = []

    def clock():
        frames.append(stacks.name_of(sys._getframe(1)))
        return 0.0

    with OperationCounter(clock, lambda: None):
        X.relu()
    assert frames and set(frames) == {None}


def test_torch_used_from_its_source_is_no_code_of_the_readers(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    ask = "from d2lperf.installed import is_installed; import sys; print(is_installed(sys.argv[1]))"
    path = f"{tmp_path}{os.pathsep}{Path(__file__).parents[1]}"
    for file, said in ((tmp_path / "torch" / "nn.py", "True"), (tmp_path / "train.py", "False")):
        assert run_python("-c", ask, file, PYTHONPATH=path).stdout.strip() == said


def test_a_data_loader_is_named():
    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, i):
            seen.append(stacks.name_of(sys._getframe()))
            return i

    seen = []
    list(torch.utils.data.DataLoader(Slow()))
    assert seen[0].startswith("__getitem__ (test_explaining.py:")


# ----------------------------------------------------------------------------------- levers


def test_levers_follow_amdahl():
    chain = torch.rand(2**20)

    def fn():
        return chain.relu().add_(1).mul_(2).neg_()

    found = counted(fn)
    shares = {part.operation.name: part.share for part in found.parts}
    assert sum(shares.values()) == pytest.approx(1)
    best = found.levers()[0]
    assert "fusion" in best.what
    assert best.gain == pytest.approx(4)  # four passes become one
    gains = [lever.gain for lever in found.levers()]
    assert gains == sorted(gains, reverse=True)


def test_a_compiled_function_is_measured_compiled():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(lambda: X.relu() + 1, backend=backend)
    found = counted(compiled)
    assert [op.name for op, _ in found.operations] == ["relu", "add"]
    assert not graphs
    compiled()
    assert len(graphs) == 1


def test_what_is_not_callable():
    with pytest.raises(TypeError, match="needs a function, not a Tensor"):
        explain(X)


def test_gelu_and_exp_have_rates_of_their_own():
    x = torch.rand(2**16)
    fast = replace(MADE, bandwidth={"triad": 1e12})
    gelu = counted(lambda: functional.gelu(x), ceilings=fast).predicted_s
    exp = counted(lambda: torch.exp(x), ceilings=fast).predicted_s
    assert gelu == pytest.approx(len(x) * (1 / 8e9 + 1 / 1e11))  # and one FLOP each
    assert exp == pytest.approx(len(x) * (1 / 2e9 + 1 / 1e11))
