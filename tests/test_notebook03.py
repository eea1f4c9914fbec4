"""The engine of notebook 03 and its cells for accelerators, taken from the notebook.

What is tested is what a reader runs. The cells for streams run twice: on the engine, and with a
made-up device module in the place of torch's. What only an accelerator runs meets a made-up one.
"""

import itertools
import re
import threading
import warnings
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
import torch

from d2lperf import compare

PATH = Path(__file__).parents[1] / "notebooks" / "03-asynchronous-computation.ipynb"
PATIENCE_S = 10
STREAM_CELLS = ("def copy(target", "def new_stream(", "def pipeline(", "def order_copy(")


def run(namespace, chosen):
    """Run the code cells that `chosen` picks in a namespace, from top to bottom."""
    found = 0
    for cell in nbformat.read(PATH, as_version=4).cells:
        if cell.cell_type == "code" and chosen(cell):
            exec(compile(cell.source, "<notebook 03>", "exec"), namespace)
            found += 1
    return found


def tagged(cell):
    return "exercise:setup" in cell.metadata.get("tags", [])


def made(**knobs):
    """The notebook's engine and its cells for streams, with the given knobs."""
    namespace = {"__name__": "__main__"}
    run(namespace, tagged)
    namespace.update(T2_S=0.002, has_streams=False, device=torch.device("cpu"))
    namespace["here"] = lambda *sentences: None
    namespace["stopwatch"] = lambda fn, *args: (0.0, fn(*args))
    namespace.update(knobs)
    assert run(namespace, lambda cell: any(t in cell.source for t in STREAM_CELLS)) == 4
    return SimpleNamespace(**namespace)


@pytest.fixture(scope="module")
def nb():
    return made()


# --------------------------------------------------------------------------------- the engine


def test_work_is_ordered_at_once_and_done_later(nb):
    engine, gate = nb.Stream(), threading.Event()
    out = engine.issue(lambda: gate.wait(PATIENCE_S) and torch.ones(1), name="held")
    assert not out.done.is_set()
    gate.set()
    assert out.item() == 1 and engine.waits == {"item": 1}
    engine.close()


def test_arithmetic_of_promises_gives_promises_and_their_inputs(nb):
    engine = nb.Stream()
    x, y = (engine.issue(torch.full, (2,), value, name=str(value)) for value in (2.0, 3.0))
    z = x * y + 2
    assert [a.name for a in z.inputs] == ["mul"] and z.inputs[0].inputs == [x, y]
    assert z.cpu().tolist() == [8.0, 8.0]
    engine.close()


def test_an_error_reaches_whoever_waits_and_the_worker_goes_on(nb):
    engine = nb.Stream()
    bad = engine.issue(lambda: 1 / 0, name="bad")
    with pytest.raises(ZeroDivisionError):
        (bad + bad).item()
    assert engine.issue(torch.ones, 1).item() == 1 and engine.waits["item"] == 2
    engine.close()


def test_the_worker_takes_over_how_many_threads_an_operation_may_use(nb, monkeypatch):
    asked, ask = [], torch.get_num_threads
    told = lambda: asked.append(threading.current_thread().name) or ask()  # noqa: E731
    monkeypatch.setattr(torch, "get_num_threads", told)
    engine = nb.Stream("a lane")
    engine.issue(torch.ones, 1, name="ones").wait()
    assert asked == ["a lane"]
    engine.close()


def test_an_event_of_another_stream_is_waited_for(nb):
    a, b, gate, seen = nb.Stream("a"), nb.Stream("b"), threading.Event(), []
    a.issue(lambda: (gate.wait(PATIENCE_S), seen.append("a")), name="a")
    b.wait_event(a.record_event())
    out = b.issue(lambda: seen.append("b"), name="b")
    assert not seen
    gate.set()
    out.wait()
    assert seen == ["a", "b"]
    a.close(), b.close()


@pytest.mark.parametrize(
    "ask, count",
    [
        (lambda x: x.item(), 1),
        (lambda x: x[x > 0], 1),
        (lambda x: bool(x > 0), 1),
        (lambda x: f"{x.sum():.1f}", 1),
        (lambda x: torch.allclose(x, x), 1),
        (str, 1),
        (lambda x: x.numpy(), 1),
        (np.asarray, 1),
        (lambda x: x.nonzero(), 1),
        (torch.argwhere, 1),
        (lambda x: x.cpu().numpy(), 2),
        (lambda x: x.to("cpu"), 1),
        (lambda x: x.to(torch.device("cpu"), torch.float64), 1),
        (lambda x: x.to(dtype=torch.float64, device="cpu:0"), 1),
        (lambda x: x.to(torch.ones(1)), 1),
        (lambda x: x.to("meta"), 0),
        (lambda x: x.to(torch.float64), 0),
        (lambda x: x + 1, 0),
        (lambda x: x[0], 0),
    ],
)
def test_blockers_are_counted_by_the_line_that_asks(nb, ask, count):
    x = torch.ones(1)
    with nb.Blockers() as found:
        ask(x)
    assert sum(found.found.values()) == count
    assert all(code.co_filename == __file__ for code, _, _ in found.found)


# -------------------------------------------------------------------- what is put to compare()


def contestants(nb, lasting):
    """The functions of section 4 that the notebook hands to compare; here they only come back."""
    caught = {}
    namespace = {**vars(nb), "T1_S": 0.0, "lasting": lasting}
    namespace["compare"] = lambda ways, **options: caught.update(ways)
    texts = "def cost_s(", "def five_and_then("
    assert run(namespace, lambda cell: cell.source.startswith(texts)) == 2
    assert len(caught) == 5
    return caught


def test_who_asks_for_the_last_result_waits_for_all_five(nb):
    done = []
    ways = contestants(nb, lambda seconds: done.append(1) or torch.ones(1))
    del ways["first.item()"]
    for name, ask in ways.items():
        done.clear()
        ask()
        assert len(done) == 5, name


def test_who_asks_for_the_first_result_waits_for_one(nb):
    done, gate = [], threading.Event()

    def lasting(seconds):
        if done:
            gate.wait(PATIENCE_S)
        done.append(1)
        return torch.ones(1)

    contestants(nb, lasting)["first.item()"]()
    assert len(done) == 1
    gate.set()


def books(nb):
    """The notebook's accountant and its epoch, with small batches."""
    namespace = {**vars(nb), "BATCHES": 10}
    for cell in nbformat.read(PATH, as_version=4).cells:
        if cell.source.startswith(("class Accountant(", "def epoch(engine, batches")):
            exec(cell.source.split("\n\n\n")[0], namespace)  # the class, and the function alone
    namespace["next_batch"] = lambda: torch.zeros(8)
    return namespace


def test_without_a_limit_the_queue_holds_all_that_was_handed_in(nb):
    namespace, gate = books(nb), threading.Event()
    namespace["train_on"] = lambda batch: gate.wait(PATIENCE_S)
    engine = namespace["Accountant"]()
    wait_for_all = engine.synchronize
    engine.synchronize = lambda: (gate.set(), wait_for_all())
    namespace["epoch"](engine, 6)
    _, held = engine.held()
    assert held[-1] == 0 and held.max() == 6 * 8 * 4


@pytest.mark.parametrize("depth, wait, most", [(0, True, 1), (2, False, 4)])
def test_a_wait_after_each_batch_and_a_limit_bound_the_memory(nb, depth, wait, most):
    namespace = books(nb)
    namespace["train_on"] = lambda batch: threading.Event().wait(0.002)
    engine = namespace["Accountant"](depth)
    namespace["epoch"](engine, 6, wait)
    _, held = engine.held()
    assert held[-1] == 0 and held.max() <= most * 8 * 4


# ------------------------------------------------------------------------------- the streams


class FakeStream:
    """Orders are carried out at once; what was asked of it is noted."""

    log: list

    def __init__(self, device):
        self.device = device

    def record_event(self):
        self.log.append(("record", self))
        return SimpleNamespace(stream=self)

    def wait_event(self, event):
        self.log.append(("wait", self, event.stream))

    def synchronize(self):
        self.log.append(("synchronize", self))


@pytest.fixture
def with_streams(monkeypatch):
    """The cells for streams as on a GPU: torch's device module is a fake that notes orders."""
    log = []
    monkeypatch.setattr(FakeStream, "log", log, raising=False)

    @contextmanager
    def stream(which):
        log.append(("in", which))
        yield

    monkeypatch.setattr(
        torch, "get_device_module", lambda d: SimpleNamespace(Stream=FakeStream, stream=stream)
    )
    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda t: pinned.append(1) or t)
    full = torch.full
    monkeypatch.setattr(torch, "full", lambda shape, *a, **k: full((4, 4), *a, **k))
    return SimpleNamespace(nb=made(has_streams=True), log=log, pinned=pinned)


def test_the_pipeline_reads_what_has_arrived_on_the_engine(nb):
    _, copying, computing = nb.streams(2)
    assert nb.pipeline(copying, computing) == [float(i) for i in range(nb.ROUNDS)]
    _, one, same = nb.streams(1)
    assert one is same and nb.pipeline(one, same) == [float(i) for i in range(nb.ROUNDS)]


def test_the_pipeline_orders_copies_and_computations_in_their_streams(with_streams):
    nb, log = with_streams.nb, with_streams.log
    _, copying, computing = nb.streams(2)
    assert isinstance(copying, FakeStream) and copying is not computing
    assert len(with_streams.pinned) == nb.ROUNDS
    log.clear()
    assert nb.pipeline(copying, computing) == [float(i) for i in range(nb.ROUNDS)]
    each = [("in", copying), ("record", copying), ("wait", computing, copying), ("in", computing)]
    assert log == [*(each * nb.ROUNDS), ("synchronize", copying), ("synchronize", computing)]
    log.clear()
    nb.pipeline(copying, computing, with_event=False)
    assert not [entry for entry in log if entry[0] in ("record", "wait")]


@pytest.mark.parametrize(
    "pinned, non_blocking, arrives", [(False, False, 1), (False, True, 1), (True, True, 2)]
)
def test_what_arrives_of_memory_that_is_written_over(nb, pinned, non_blocking, arrives):
    _, arrived = nb.overwritten(pinned, non_blocking)
    assert arrived == arrives


def test_a_copy_is_left_to_the_driver_where_there_is_one(with_streams, monkeypatch):
    nb, log = with_streams.nb, with_streams.log
    _, stream, _ = nb.streams(1)
    log.clear()
    target = torch.zeros(2)
    nb.order_copy(stream, target, torch.ones(2), True, True)
    assert log == [("in", stream)] and target.tolist() == [1, 1]


# ------------------------------------------------------------- what only an accelerator runs


GPU = SimpleNamespace(type="cuda")
ORDER_S, TASK_S = 1e-5, 3e-3


class Accelerator:
    """One queue in simulated time: an order returns at once, its task ends later."""

    def __init__(self, in_order=True):
        self.now = self.idle_from = 0.0
        self.in_order = in_order  # a value is copied behind all that was ordered before

    def perf_counter(self):
        return self.now

    def synchronize(self):
        self.now = max(self.now, self.idle_from)

    def order(self, lasts_s):
        self.now += ORDER_S
        self.idle_from = max(self.now, self.idle_from) + lasts_s
        return self.idle_from

    @property
    def torch(self):
        event = SimpleNamespace(Event=lambda enable_timing: FakeEvent(self))
        return SimpleNamespace(
            get_device_module=lambda device: event,
            randn=lambda *shape, device: None,
            mm=lambda a, b: FakeResult(self, self.order(TASK_S)),
        )


class FakeEvent:
    def __init__(self, accelerator):
        self.accelerator = accelerator

    def record(self):
        self.at = self.accelerator.order(0)

    def elapsed_time(self, later):
        return 1e3 * (later.at - self.at)


class FakeResult:
    def __init__(self, accelerator, done):
        self.accelerator, self.done = accelerator, done

    def __getitem__(self, index):
        return self

    def ask(self):
        device = self.accelerator
        device.now = max(device.now, device.idle_from if device.in_order else self.done)
        return self

    cpu = numpy = nonzero = ask

    def item(self):
        return self.ask() and 1.0

    def __str__(self):
        return str(self.item())


def on_accelerator(accelerator, *beginnings):
    """The cells that begin so, run on a made-up accelerator; those of the engine run before."""
    namespace = {"t2": 0.0}
    run(namespace, tagged)
    assert (
        run(namespace, lambda cell: cell.source.startswith(("def cost_s(", "def cost_table("))) == 2
    )
    namespace.update(torch=accelerator.torch, time=accelerator, device=GPU)
    namespace["synchronize"] = accelerator.synchronize
    clocks = {"clock": accelerator.perf_counter, "cpu_clock": accelerator.perf_counter}
    namespace["compare"] = lambda ways, **options: compare(ways, **clocks, **options)
    beginnings = ("def three_readings(", *beginnings)
    assert run(namespace, lambda cell: cell.source.startswith(beginnings)) == len(beginnings)
    return namespace


def test_an_accelerator_orders_at_once_and_its_events_tell_the_work(capsys):
    nb = on_accelerator(Accelerator(), "def device_readings(")
    assert nb["ordered_s"] == pytest.approx(22 * ORDER_S)
    assert nb["on_device_s"] == pytest.approx(20 * TASK_S, rel=0.01)
    assert nb["done_s"] == pytest.approx(20 * TASK_S, rel=0.01)
    assert "between events 60.0 ms" in capsys.readouterr().out


@pytest.mark.parametrize("in_order, outcome", [(True, "borne out"), (False, "contradicted")])
def test_the_first_result_of_a_stream_waits_for_the_last(in_order, outcome, monkeypatch, capsys):
    monkeypatch.delenv("D2LPERF_STRICT", raising=False)
    cells = "def no_wait_at_the_end(", "def device_readings(", "def products_and_then("
    nb = on_accelerator(Accelerator(in_order), *cells)
    said = capsys.readouterr().out
    assert f"claim {outcome}: first.item() is the same as last.item()" in said
    assert "first.item()        waits for 5 of 5 tasks" in said
    first, single = (nb["waiting"].samples[f"{name}.item()"][0] for name in ("first", "single"))
    assert first == pytest.approx(5 * TASK_S if in_order else TASK_S, rel=0.05)
    assert single == pytest.approx(TASK_S, rel=0.05)


def test_the_race_is_waited_for_before_the_clock_starts_and_not_before_it_stops():
    log, now = [], [0.0]

    def program(letter):
        def work():
            log.append(letter)
            now[0] += 1e-3

        return work

    namespace = {
        **dict(itertools=itertools, threadpool_limits=lambda n: nullcontext(), THREADS=1),
        "synchronize": lambda: log.append("W"),
        "compare": lambda ways, **options: compare(
            ways, clock=lambda: log.append("T") or now[0], cpu_clock=lambda: now[0], **options
        ),
    }
    names = "as_in_the_book single_precision torchs_random_numbers torchs_product on_the_device"
    letters = dict(zip((*names.split(), "not_waited_for"), "abcdef", strict=True))
    namespace |= {name: program(letter) for name, letter in letters.items()}
    cells = "def no_wait_at_the_end(", "steps = {"
    assert run(namespace, lambda cell: cell.source.startswith(cells)) == 2
    text = "".join(log)
    samples = list(re.finditer("[a-f]+", text))
    assert len(samples) > 100 and {s.group()[0] for s in samples} == set("abcdef")
    for s in samples:
        assert len(set(s.group())) == 1
        assert text[: s.start()].endswith("WT") and text[s.end()] == "T"


def test_cuda_is_asked_for_its_warnings_and_left_as_it_was(monkeypatch, capsys):
    modes, item = ["default"], torch.Tensor.item

    def asking(tensor):
        if modes[-1] == "warn":
            warnings.warn("called a synchronizing CUDA operation", stacklevel=2)
        return item(tensor)

    namespace = {"device": torch.device("cpu")}
    run(namespace, tagged)
    cells = "def careless_step(", "def fresh(", "def careful_step("
    assert run(namespace, lambda cell: cell.source.startswith(cells)) == 3
    monkeypatch.setattr(torch.Tensor, "item", asking)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    nb = {**namespace, "device": GPU}
    assert run(nb, lambda cell: cell.source.startswith("def syncs_warned_of(")) == 1
    said = capsys.readouterr().out  # item is asked for by its line, and by the one that formats
    assert "careless: 20 warnings, careful: 0" in said
    assert modes == ["default", "warn", "default", "warn", "default"]
    with pytest.raises(ZeroDivisionError):
        nb["syncs_warned_of"](lambda *arguments: 1 / 0)
    assert modes[-2:] == ["warn", "default"]


class Memory:
    """The part of torch that counts a GPU's memory; `keeps`: until somebody waits."""

    def __init__(self, keeps):
        self.held, self.most, self.kept, self.keeps, self.waits = 0, 0, [], keeps, 0
        self.cuda = SimpleNamespace(
            reset_peak_memory_stats=lambda device: setattr(self, "most", self.held),
            memory_allocated=lambda device: self.held,
            max_memory_allocated=lambda device: self.most,
            synchronize=self.synchronize,
        )

    def synchronize(self, device):
        self.waits += 1
        self.kept.clear()

    def randn(self, *shape, device=None):
        memory, size = self, 4 * shape[0] * shape[1]

        class Block:
            def __del__(self):
                memory.held -= size

        self.held += size
        self.most = max(self.most, self.held)
        block = Block()
        self.kept += [block] if self.keeps else []
        return block

    def mm(self, a, b):
        return self.randn(2048, 2048)


def test_the_most_memory_of_a_run_ahead_is_that_of_two_results(capsys):
    nb = {"torch": Memory(keeps=False), "device": GPU}
    assert run(nb, lambda cell: cell.source.startswith("def peak_of_run_ahead(")) == 1
    assert capsys.readouterr().out.count("32.0 MiB") == 2
    assert nb["torch"].waits == 41 + 1 and nb["torch"].held == 0


def test_memory_that_piles_up_on_a_gpu_is_noticed():
    with pytest.raises(AssertionError):
        run(
            {"torch": Memory(keeps=True), "device": GPU},
            lambda cell: cell.source.startswith("def peak_of_run_ahead("),
        )
