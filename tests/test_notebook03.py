"""The engine of notebook 03, and its cells for streams, taken from the notebook; streams are fakes.

What is tested is what a reader runs. The cells for streams run twice: on the engine, and with a
made-up device module in the place of torch's.
"""

import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import torch

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


@pytest.mark.parametrize("depth, wait, most", [(0, True, 1), (2, False, 4)])
def test_a_wait_after_each_batch_and_a_limit_bound_the_memory(nb, depth, wait, most):
    namespace = {**vars(nb), "BATCHES": 10}
    for cell in nbformat.read(PATH, as_version=4).cells:
        if cell.source.startswith(("class Accountant(", "def epoch(engine, batches")):
            exec(cell.source.split("\n\n\n")[0], namespace)  # the class, and the function alone
    namespace["next_batch"] = lambda: torch.zeros(8)
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
