"""The code paths of notebook 04, taken from its cells: several GPUs, one, none, all simulated.

What is tested is what a reader runs: the cells tagged `exercise:setup`, in a namespace of their
own. Devices are injected: fake streams work in threads, or note what they were asked for.
"""

import itertools
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import nbformat
import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

PATH = Path(__file__).parents[1] / "notebooks" / "04-automatic-parallelism.ipynb"
CPU, META = torch.device("cpu"), torch.device("meta")
PATIENCE_S = 10


def cells():
    """A namespace in which the notebook's tagged cells have run."""
    namespace = {"__name__": "__main__"}
    for cell in nbformat.read(PATH, as_version=4).cells:
        if "exercise:setup" in cell.metadata.get("tags", []):
            exec(compile(cell.source, "<notebook 04>", "exec"), namespace)
    return SimpleNamespace(**namespace)


nb = cells()


def run_cell(start, **namespace):
    """Run the one cell whose code begins so, in a namespace; return that."""
    (cell,) = (
        c
        for c in nbformat.read(PATH, as_version=4).cells
        if c.cell_type == "code" and c.source.startswith(start)
    )
    exec(compile(cell.source, "<notebook 04>", "exec"), namespace)
    return namespace


@pytest.fixture(autouse=True)
def threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class Mark:
    """What a stream gives for its work: like an event, it has no `result`."""

    def __init__(self, future):
        self.future = future

    def synchronize(self):
        self.future.exception(PATIENCE_S)


class FakeStream:
    """A stream that is a thread; notes in `log` what was started and ended, in which order."""

    def __init__(self, name, device, log=None):
        self.name, self.device, self.timeline = name, device, nb.Timeline()
        self.log = [] if log is None else log
        self.pool = ThreadPoolExecutor(1)

    def start(self, label, work, after=()):
        self.log.append(("start", self.name, label))

        def task():
            for one in after:
                one.synchronize()
            work()
            self.log.append(("end", self.name, label))

        return Mark(self.pool.submit(task))


# -------------------------------------------------------------------------------- the graph


@st.composite
def graphs(draw, lanes=(None,)):
    names = [f"t{k}" for k in range(draw(st.integers(1, 9)))]
    tasks = {}
    for k, name in enumerate(names):
        needs = draw(st.sets(st.sampled_from(names[:k]), max_size=3)) if k else ()
        cost, lane = draw(st.integers(1, 9)), draw(st.sampled_from(lanes))
        tasks[name] = nb.Task(cost, tuple(sorted(needs)), lane)
    return tasks


def longest_chain(tasks, name):
    return tasks[name].cost + max((longest_chain(tasks, n) for n in tasks[name].needs), default=0)


@settings(deadline=None, max_examples=60)
@given(graphs(), st.integers(1, 4))
def test_schedule_keeps_the_bounds(tasks, p):
    plan = nb.schedule(tasks, [f"w{k}" for k in range(p)])
    work = sum(task.cost for task in tasks.values())
    span = max(longest_chain(tasks, name) for name in tasks)
    assert max(nb.ahead(tasks).values()) == span
    assert sum(tasks[name].cost for name in nb.critical_path(tasks)) == span
    low, high = max(work / p, span), work / p + (1 - 1 / p) * span
    assert low - 1e-6 <= plan.duration_s <= high + 1e-6


@settings(deadline=None, max_examples=60)
@given(graphs(lanes=(None, "w0", "w1")))
def test_schedule_keeps_needs_and_lanes(tasks):
    plan = nb.schedule(tasks, ["w0", "w1"])  # a Timeline refuses spans that overlap in a lane
    spans = {span.name: span for span in plan.spans}
    assert set(spans) == set(tasks)
    for name, task in tasks.items():
        assert task.lane in (None, spans[name].lane)
        for need in task.needs:
            assert spans[need].end_s <= spans[name].start_s + 1e-8


@settings(deadline=None, max_examples=25)
@given(graphs(lanes=(None, "w0", "w1")))
def test_execute_keeps_needs_and_lanes(tasks):
    done = []

    def do(name):
        assert set(tasks[name].needs) <= set(done)
        done.append(name)

    timeline = nb.execute(tasks, do, ["w0", "w1"])
    assert sorted(done) == sorted(tasks)
    for span in timeline.spans:
        assert tasks[span.name].lane in (None, span.lane)


def test_execute_runs_side_by_side():
    meet = threading.Barrier(2, timeout=PATIENCE_S)
    nb.execute({"a": nb.Task(1), "b": nb.Task(1)}, lambda name: meet.wait(), ["w0", "w1"])


def test_execute_lets_errors_through():
    def do(name):
        raise ZeroDivisionError(name)

    tasks = {"a": nb.Task(1), "b": nb.Task(1, ("a",)), "c": nb.Task(1, ("b",), "w1")}
    with pytest.raises(ZeroDivisionError, match="a"):
        nb.execute(tasks, do, ["w0", "w1"])


@pytest.mark.parametrize(
    ("gain", "workers", "word"),
    [(1.93, 2, "possible"), (2.05, 2, "possible"), (2.2, 2, "impossible"), (0.5, 1, "possible")],
)
def test_credible(gain, workers, word):
    assert nb.credible(gain, workers).startswith(word)


# ------------------------------------------------------------------------------ two devices


def fake_pairs(devices):
    made = []

    def core(name):
        made.append(("core", name))
        return FakeStream(name, CPU)

    def stream(name, device):
        made.append(("stream", name, device))
        return FakeStream(name, device)

    return nb.pairs(devices, core=core, stream=stream), made


def test_several_gpus_give_the_first_two():
    gpus = [torch.device("cuda", k) for k in range(3)]
    beside, made = fake_pairs(gpus)
    assert list(beside) == ["two GPUs"]
    assert made == [("stream", "cuda:0", gpus[0]), ("stream", "cuda:1", gpus[1])]


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_one_gpu_works_beside_the_cpu_and_in_two_streams(kind):
    gpu = torch.device(kind, 0)
    beside, made = fake_pairs([gpu])
    assert list(beside) == ["the GPU and the CPU", "two streams of one GPU"]
    assert made == [
        ("stream", "GPU", gpu),
        ("core", "CPU"),
        ("stream", "stream A", gpu),
        ("stream", "stream B", gpu),
    ]


def test_no_gpu_gives_two_cores():
    beside, made = fake_pairs([CPU])
    assert list(beside) == ["two cores"]
    assert made == [("core", "core 0"), ("core", "core 1")]
    places = nb.pairs([CPU])["two cores"]  # the real ones
    assert [type(place) for place in places] == [nb.Core, nb.Core]


@pytest.mark.parametrize("devices", [[META, META], [META], [CPU]], ids=["two", "one", "none"])
def test_the_experiment_runs_on_every_rung(devices):
    # "meta" tensors have shapes and no data: a GPU that is not there
    for pair in nb.pairs(devices, stream=FakeStream).values():
        jobs = nb.jobs_for(pair, 4, gpu_size=8, cpu_size=8)
        assert [place for place, _ in jobs] == pair
        nb.one_by_one(jobs)
        nb.together(jobs)
        kinds = {place.device.type for place in pair}
        for place, job in jobs:
            results = job()
            assert {r.device.type for r in results} == {place.device.type}
            assert 1 <= len(results) <= 4
            assert len(kinds) == 2 or len(results) == 4


def test_together_starts_both_before_it_waits():
    meet = threading.Barrier(2, timeout=PATIENCE_S)
    for pair in ([nb.Core("a"), nb.Core("b")], [FakeStream("a", META), nb.Core("b")]):
        nb.together([(place, meet.wait) for place in pair])


def test_one_by_one_waits_in_between():
    log = []
    pair = [FakeStream("a", META, log), FakeStream("b", META, log)]
    nb.one_by_one([(place, lambda: None) for place in pair])
    assert log == [
        ("start", "a", "run"),
        ("end", "a", "run"),
        ("start", "b", "run"),
        ("end", "b", "run"),
    ]


def test_a_core_waits_for_what_it_comes_after_and_notes_its_time():
    core, other, seen = nb.Core("core"), nb.Core("other"), []
    first = other.start("first", lambda: seen.append("first"))
    mark = FakeStream("s", META).start("mark", lambda: seen.append("mark"), [])
    nb.wait([core.start("second", lambda: seen.append("second"), [first, mark])])
    assert seen[-1] == "second" and sorted(seen) == ["first", "mark", "second"]
    assert [(span.name, span.lane) for span in core.timeline.spans] == [("second", "core")]


def test_a_core_lets_errors_through():
    core = nb.Core("core")
    with pytest.raises(ZeroDivisionError):
        nb.wait([core.start("broken", lambda: 1 / 0)])


# ------------------------------------------------------------------- the stream of a real GPU


@pytest.fixture
def accelerator(monkeypatch):
    """A fake of the parts of torch that `Stream` asks; `log` says what it asked for."""
    log = []

    class TorchStream:
        def __init__(self, device):
            self.device = device

        def wait_event(self, event):
            log.append(("wait_event", event))

        def record_event(self):
            log.append("record_event")
            return "event"

    state = SimpleNamespace(index=0)
    monkeypatch.setattr(torch, "Stream", TorchStream)
    for name, function in {
        "current_device_index": lambda: state.index,
        "set_device_index": lambda index: log.append(("set_device_index", index)),
        "current_stream": lambda device: f"stream of {device} before",
        "set_stream": lambda stream: log.append(("set_stream", stream)),
    }.items():
        monkeypatch.setattr(torch.accelerator, name, function)
    monkeypatch.setattr(torch.profiler, "record_function", lambda label: nullcontext())
    return log


def test_stream_works_in_its_stream_and_leaves_all_as_it_was(accelerator):
    gpu = torch.device("cuda", 1)
    stream = nb.Stream("GPU", gpu)
    event = stream.start("run", lambda: accelerator.append("work"))
    assert event == "event"
    assert accelerator == [
        ("set_stream", stream.stream),
        "work",
        "record_event",
        ("set_stream", "stream of cuda:1 before"),
        ("set_device_index", 0),
    ]


def test_stream_waits_for_events_itself_and_for_cores_before(accelerator):
    core = nb.Core("core")
    future = core.start("first", lambda: accelerator.append("first"))
    nb.Stream("GPU", torch.device("cuda", 0)).start(
        "second", lambda: accelerator.append("second"), [future, "an event"]
    )
    assert accelerator[:2] == ["first", ("wait_event", "an event")]
    assert accelerator[3] == "second"


def test_stream_leaves_all_as_it_was_after_an_error(accelerator):
    with pytest.raises(ZeroDivisionError):
        nb.Stream("GPU", torch.device("cuda", 1)).start("broken", lambda: 1 / 0)
    assert accelerator[-2:] == [
        ("set_stream", "stream of cuda:1 before"),
        ("set_device_index", 0),
    ]


# ------------------------------------------------------------- computation and communication


def test_engines():
    gpus = [torch.device("cuda", k) for k in range(2)]
    compute, copy = nb.engines(gpus, stream=FakeStream)
    assert compute.device == copy.device == gpus[0]
    compute, copy = nb.engines([CPU])
    assert {type(compute), type(copy)} == {nb.Core} and compute is not copy


@pytest.mark.parametrize("kind", ["streams", "cores"])
@pytest.mark.parametrize("early", [False, True])
def test_compute_and_copy(kind, early):
    log = []
    places = {
        "streams": lambda: (FakeStream("compute", CPU, log), FakeStream("copy", CPU, log)),
        "cores": lambda: nb.engines([CPU]),
    }[kind]()
    factors = [torch.rand(6, 3), torch.rand(3, 6)]
    y, host = ([torch.zeros(6, 6) for _ in range(5)] for _ in range(2))
    result = nb.compute_and_copy(*places, factors, y, host, early)
    expected = factors[0] @ factors[1]
    assert len(result) == 5
    assert all(torch.allclose(h, expected) for h in result)
    if kind == "streams" and not early:
        last = max(log.index(("end", "compute", f"compute {i}")) for i in range(5))
        first = min(log.index(("start", "copy", f"copy {i}")) for i in range(5))
        assert last < first


def test_early_copies_do_not_wait_for_what_comes_later():
    # the third product only begins when the first copy has ended
    copied = threading.Event()

    class Slow(FakeStream):
        def start(self, label, work, after=()):
            def held():
                if label == "compute 2":
                    assert copied.wait(PATIENCE_S)
                work()

            return super().start(label, held, after)

    class Telling(FakeStream):
        def start(self, label, work, after=()):
            def told():
                work()
                copied.set()

            return super().start(label, told, after)

    factors = [torch.rand(2, 2), torch.rand(2, 2)]
    y, host = ([torch.zeros(2, 2) for _ in range(3)] for _ in range(2))
    places = Slow("compute", CPU), Telling("copy", CPU)
    nb.compute_and_copy(*places, factors, y, host, early=True)
    assert all(torch.allclose(h, factors[0] @ factors[1]) for h in host)


@pytest.mark.parametrize(
    ("broken", "way"),
    [
        (False, lambda y, host, early, product: [h.copy_(product) for h in host]),
        (True, lambda y, host, early, product: host),
        (True, lambda y, host, early, product: host if early else [h.copy_(product) for h in host]),
        (True, lambda y, host, early, product: [h.copy_(one) for h, one in zip(host, y)]),
    ],
    ids=["right", "no copy", "no early copy", "copied before it is computed"],
)
def test_what_is_copied_is_checked_from_zeros(broken, way):
    def compute_and_copy(compute, copy, factors, y, host, early):
        return way(y, host, early, torch.mm(*factors))

    given = {**vars(nb), "devices": [CPU], "compute_and_copy": compute_and_copy}
    with pytest.raises(AssertionError, match="not close") if broken else nullcontext():
        run_cell("compute, copy = engines(devices)", **given)


# ------------------------------------------------------------------------- what ran, on a GPU


def timeline(*lanes):
    """A timeline made up of one span a lane: (lane, device, start, duration)."""
    return nb.Timeline.from_spans([("run", start, s, lane, dev) for lane, dev, start, s in lanes])


MAIN = ("main thread", "host", 0, 9)
DEFAULT = ("cuda:0 stream 7", "cuda:0", 0, 1)  # has next to nothing to do
SEEN = {
    "the GPU and the CPU": ([("CPU_0", "host", 1, 4), ("cuda:0 stream 13", "cuda:0", 3, 4)], 0.5),
    "two streams": (
        [("cuda:0 stream 13", "cuda:0", 1, 4), ("cuda:0 stream 17", "cuda:0", 5, 4)],
        0.0,
    ),
    "two GPUs": ([("cuda:0 stream 13", "cuda:0", 1, 4), ("cuda:1 stream 13", "cuda:1", 1, 4)], 1.0),
}


@pytest.mark.parametrize(("spans", "overlap"), SEEN.values(), ids=SEEN)
def test_the_two_lanes_with_most_to_do_are_compared(spans, overlap):
    found = timeline(MAIN, DEFAULT, *spans)
    assert sorted(nb.busiest(found)) == sorted(lane for lane, *_ in spans)
    assert nb.told(found) == f"overlap ≈ {overlap:.2f}"


@pytest.mark.parametrize(("lanes", "seen"), [((MAIN,), "none"), ((MAIN, DEFAULT), DEFAULT[0])])
def test_no_overlap_is_told_of_fewer_than_two_lanes(lanes, seen):
    assert nb.told(timeline(*lanes)) == f"no overlap to tell: lanes seen: {seen}"


def test_what_cores_did_they_note_themselves():
    places = [nb.Core("core 0"), nb.Core("core 1")]
    jobs = [(place, lambda: None) for place in places]
    seen = nb.watched(places, partial(nb.one_by_one, jobs), record=None)
    assert sorted(seen.lanes) == ["core 0", "core 1"]
    assert nb.told(seen) == "overlap ≈ 0.00"


@pytest.mark.parametrize("devices", [[META, META], [META]], ids=["two GPUs", "one GPU"])
def test_what_a_gpu_did_is_recorded(devices):
    made_up, done = timeline(MAIN, DEFAULT), []

    def record(action):
        done.append("record")
        action()
        return made_up

    for places in nb.pairs(devices, stream=FakeStream).values():
        done.clear()
        assert nb.watched(places, lambda: done.append("work"), record) is made_up
        assert done == ["record", "work"]


# ----------------------------------------------------------------------------------- loading


def test_prefetched_gives_all_in_order():
    data = [f"item {i}" for i in range(10)]
    assert list(nb.prefetched(data, depth=3)) == data == list(nb.one_at_a_time(data))


def test_prefetched_goes_ahead_but_not_too_far():
    taken, ahead = [], threading.Event()

    class Data:
        def __len__(self):
            return 100

        def __getitem__(self, i):
            taken.append(i)
            if i == 3:  # one in use, two ready, one that waits to get in
                ahead.set()
            return i

    loaded = nb.prefetched(Data(), depth=2)
    assert next(loaded) == 0
    assert ahead.wait(PATIENCE_S)
    assert max(taken) <= 4
    assert list(itertools.islice(loaded, 200)) == list(range(1, 100))


# --------------------------------------------------------------------------- who has the cores


def readers():
    """The cells that count free cores, in a namespace."""
    used = {"os": os, "psutil": psutil, "suppress": suppress, "time": time}
    return run_cell("class FreeCores", **run_cell("def cpu_seconds(", **used))


@pytest.mark.parametrize(
    ("cores", "idle", "used", "free"),
    [
        (2, 1.9, 0.1, 2.0),  # a quiet machine
        (2, 0.1, 1.8, 1.9),  # all ours
        (2, 0.0, 1.0, 1.0),  # another program has one
        (2, 14.0, 1.0, 2.0),  # a quota of two on sixteen cores
    ],
)
def test_free_cores(cores, idle, used, free):
    readings = iter([(100.0, 50.0, 7.0), (100.0 + 3 * idle, 50.0 + 3 * used, 10.0)])
    with readers()["FreeCores"](cores, read=lambda: next(readings)) as found:
        pass
    assert found.count == pytest.approx(free)


@pytest.mark.parametrize(
    ("allowed", "idle"),
    [({1, 3}, 20 + 40), ({0, 1, 2, 3}, 100), ({6, 7}, 100)],  # numbers that are not in the list
)
def test_idle_is_what_our_cores_are(monkeypatch, allowed, idle):
    every = [SimpleNamespace(idle=10.0 * k) for k in (1, 2, 3, 4)]
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: every)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: allowed, raising=False)
    assert readers()["cpu_seconds"]()[0] == idle


def test_idle_without_affinity_is_what_all_cores_are(monkeypatch):
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: [SimpleNamespace(idle=1.0)] * 4)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert readers()["cpu_seconds"]()[0] == 4


def test_children_count_and_one_that_is_gone_does_not_stop_us(monkeypatch):
    def gone():
        raise psutil.NoSuchProcess(1)

    class Ours:
        def cpu_times(self):
            return (1.0, 2.0, 4.0, 8.0, 1000.0)  # the last: waiting for a disk

        def children(self, recursive):
            return [SimpleNamespace(cpu_times=gone), SimpleNamespace(cpu_times=lambda: (16.0,) * 4)]

    monkeypatch.setattr(psutil, "Process", Ours)
    assert readers()["cpu_seconds"]()[1] == 15 + 64


BURN = """
import sys, time
def burn():
    began = time.process_time()
    while time.process_time() < began + 0.2:
        pass
burn()
print("half", flush=True)
sys.stdin.readline()
burn()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="psutil knows of ended children on Linux only")
def test_a_child_that_ends_leaves_us_its_time():
    seconds = readers()["cpu_seconds"]
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", BURN], **pipe) as child:
        assert child.stdout.readline() == "half\n"
        before = seconds()
        child.stdin.write("go\n")
        child.stdin.flush()
        child.wait(PATIENCE_S)
    idle, used, passed = (b - a for a, b in zip(before, seconds()))
    assert 0.15 < used < 0.15 + passed + 0.2
    assert idle >= 0


# ------------------------------------------------------------------- claims of parallel speed


@pytest.mark.parametrize(
    "free, unless, outcome",
    [
        (2.0, "", "expected"),
        (1.0, "", "two cores are needed, 1.0 of 2 were free"),
        (2.0, "no lock", "no lock"),
        (1.0, "no lock", "two cores are needed, 1.0 of 2 were free"),
    ],
)
def test_a_claim_of_parallel_speed_needs_cores_and_no_objection(capsys, free, unless, outcome):
    namespace = run_cell("def race(", cores=2)
    result = SimpleNamespace(
        expect=lambda name, faster_than: print("expected", name, faster_than),
        between=lambda name, than: SimpleNamespace(ratio=0.5, low=0.4, high=0.6),
    )
    namespace["claim"]((result, free), "a process", than="a thread", unless=unless)
    said = capsys.readouterr().out
    assert outcome in said
    assert ("not decided here" in said) == (outcome != "expected")
