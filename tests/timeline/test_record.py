"""Recording: real ones on the CPU; those of devices from events as the profiler lists them."""

import pickle
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import toy_device
from fresh import run_fresh, run_python
from profiler_events import DEVICE, PID, event
from racing import in_threads

from d2lperf.timeline import Timeline, TimelineError, record
from d2lperf.timeline.record import CALL, timeline_of


@pytest.fixture(autouse=True)
def nothing_stays():
    """No profiler runs afterwards, and no hook is left."""

    def hooks():
        return torch.autograd._profiler_enabled(), threading.getprofile(), sys.getprofile()

    before = hooks()
    yield
    assert hooks() == before


def relu():
    torch.relu(torch.ones(3))


# Real recordings --------------------------------------------------------------------------


def test_record_sees_operations_their_nesting_and_names_of_ones_own():
    x = torch.ones(64, 64)
    calls = []

    def fn():
        calls.append(1)
        with torch.profiler.record_function("mine"):
            torch.nn.functional.linear(x, x)
        torch.relu(x)

    t = record(fn, warmup=2)
    assert len(calls) == 3
    depth = {s.name: s.depth for s in t.spans}
    assert (depth["mine"], depth["aten::linear"], depth["aten::relu"]) == (0, 1, 0)
    assert sum(s.name == "mine" for s in t.spans) == 1  # the warm-up is not in it
    assert t.lanes == ["main thread"] and t.devices == ["CPU"]
    assert t.window_s[0] == 0 < t.spans[0].start_s  # from the call of fn
    assert t.spans[-1].end_s <= t.window_s[1]
    assert 0 < t.busy_fraction("main thread") <= 1
    assert CALL not in depth


def test_times_of_a_recording_are_seconds():
    seen = []

    def fn():
        start = time.perf_counter()
        with torch.profiler.record_function("wait"):
            time.sleep(0.02)
        seen.append(time.perf_counter() - start)

    (span,) = record(fn, warmup=0).spans
    assert 0.01 <= span.duration_s <= 1.1 * seen[0]  # two clocks, one unit


@pytest.mark.parametrize("name", ['say "this"', "é", "back\\slash", "new\nline", "$x"])
def test_names_with_odd_letters_come_through(name):
    def fn():
        with torch.profiler.record_function(name):
            relu()

    assert {"aten::relu", name} <= {s.name for s in record(fn, warmup=0).spans}


def test_threads_have_lanes_with_their_names():
    """Both threads have ended when the recording does."""
    x = torch.ones(200, 200)
    together = threading.Barrier(2)

    def work():
        together.wait()
        for _ in range(3):
            x @ x

    def fn():
        in_threads(work, work)
        torch.relu(x)

    t = record(fn)
    assert t.lanes[0] == "main thread" and sorted(t.lanes[1:]) == ["worker 0", "worker 1"]
    found = [sum(s.name == "aten::matmul" for s in t.spans if s.lane == lane) for lane in t.lanes]
    assert found == [0, 3, 3]


def test_a_worker_thread_can_record():
    found = []
    worker = threading.Thread(target=lambda: found.append(record(relu)), name="pump")
    worker.start()
    worker.join()
    (t,) = found
    assert t.lanes == ["pump"] and "aten::relu" in {s.name for s in t.spans}


def test_a_hook_of_somebody_else_stays():
    def hook(frame, event, arg):
        pass

    threading.setprofile(hook)
    try:
        record(relu)
        assert threading.getprofile() is hook
    finally:
        threading.setprofile(None)


def test_processes_share_the_clock():
    """What a worker records lies between its start and its end as the parent saw them."""
    parent = Timeline()
    with parent.span("worker lives"):
        done = run_fresh(
            "import pickle, torch\n"
            "from d2lperf.timeline import record\n"
            "t = record(lambda: torch.relu(torch.ones(3)), warmup=0)\n"
            "print(pickle.dumps(t).hex())"
        )
    t = Timeline.merge({"parent": parent, "worker": pickle.loads(bytes.fromhex(done.stdout))})
    assert t.lanes == ["parent main thread", "worker main thread"]
    whole = t.spans[0]
    assert whole.name == "worker lives" and len(t) > 1
    assert all(whole.start_s < s.start_s and s.end_s < whole.end_s for s in t.spans[1:])


def test_recording_is_quiet_and_leaves_no_warning():
    done = run_python(
        "-c",
        "import torch, warnings\n"
        "warnings.simplefilter('error')\n"
        "from d2lperf.timeline import record\n"
        "for _ in range(2):\n"
        "    record(lambda: torch.ones(3) + 1)\n",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# Faults -----------------------------------------------------------------------------------


@pytest.mark.parametrize("warmup", [0, 1])
def test_a_recording_of_nothing_says_what_to_do(warmup):
    with pytest.raises(TimelineError, match=r"no operation of torch.*timeline\.span"):
        record(lambda: sum(range(10)), warmup=warmup)


@pytest.mark.parametrize("kind, warmup", [(ZeroDivisionError, 1), (KeyboardInterrupt, 0)])
def test_an_error_comes_through_and_recording_works_again(kind, warmup):
    def fn():
        relu()
        raise kind("broken")

    with pytest.raises(kind, match="broken"):
        record(fn, warmup=warmup)
    assert record(relu).lanes == ["main thread"]


def test_a_recording_is_refused_while_another_thread_records():
    started, go_on, found = threading.Event(), threading.Event(), []

    def fn():
        relu()
        started.set()
        go_on.wait(30)

    worker = threading.Thread(target=lambda: found.append(record(fn, warmup=0)))
    worker.start()
    assert started.wait(30)
    with pytest.raises(TimelineError, match="a profiler is running"):
        record(relu)
    go_on.set()
    worker.join()
    assert len(found[0])


def test_record_inside_a_profiler_is_refused_and_harms_it_not(capfd):
    with torch.profiler.profile() as outer:
        with pytest.raises(TimelineError, match="a profiler is running"):
            record(relu)
        relu()
    assert "aten::relu" in {event.name for event in outer.events()}


def test_record_inside_record_is_refused():
    with pytest.raises(TimelineError, match="a profiler is running"):
        record(lambda: record(relu))
    assert record(relu).lanes == ["main thread"]


def test_a_function_that_profiles_itself_is_refused():
    """In a process of its own, since torch can crash here."""
    done = run_fresh(
        """
import torch
from d2lperf.timeline import TimelineError, record

def fn():
    torch.ones(3) + 1
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        torch.ones(3) + 1

try:
    record(fn)
except TimelineError as error:
    print("used a profiler itself" in str(error))
print(record(lambda: torch.ones(3)).lanes)
"""
    )
    assert done.stdout == "True\n['main thread']\n", done.stderr


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="record needs a function, not a Tensor"):
        record(torch.ones(3))


# Devices: events as the profiler lists them -----------------------------------------------

GPU_EVENTS = [
    event("user_annotation", CALL, 10.0, 50),
    event("gpu_user_annotation", CALL, 30, 170, 0, 7),
    event("cpu_op", "aten::mm", 12, 20),
    event("cuda_runtime", "cudaLaunchKernel", 15, 10),
    event("cuda_driver", "cuLaunchKernelEx", 26, 2),
    event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 40, 10, PID, 2),
    event("kernel", "void gemm<float>(int)", 30, 60.5, 0, 7),
    event("kernel", "void gemm<float>(int)", 90.25, 50, 0, 7),  # crosses the one before
    event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 60, 100, 0, 20),
    event("gpu_memset", "Memset (Device)", 60, 1, 1, 7),
    event("cuda_runtime", "cudaDeviceSynchronize", 61, 130),  # ours, after the call
    event("overhead", "Activity Buffer Request", 5, 50, -1, 0),
]


def old(events):
    """As torch 2.7 lists them: without the kind of activity."""
    for e in events:
        yield SimpleNamespace(**{k: v for k, v in vars(e).items() if k != "activity_type"})


@pytest.mark.parametrize("version", [list, old])
def test_streams_of_devices_are_lanes(version):
    t = timeline_of(version(GPU_EVENTS), {})
    streams = ["cuda:0 stream 7", "cuda:0 stream 20", "cuda:1 stream 7"]
    assert t.lanes == ["main thread", "backward thread", *streams]
    assert t.devices == ["CPU", "cuda:0", "cuda:1"]
    host = [s.name for s in t.spans if s.lane == "main thread"]
    assert host == ["aten::mm", "cudaLaunchKernel", "cuLaunchKernelEx"]
    assert t.window_s == (0.0, 150e-6)  # from the call to the end of the last copy
    # Two kernels of one stream overlap by a quarter of a microsecond.
    assert t.busy_s("cuda:0 stream 7") == pytest.approx(110.25e-6)
    assert t.overlap("cuda:0 stream 7", "cuda:0 stream 20") == pytest.approx(80.25 / 100)
    assert [s.depth for s in t.spans if s.lane == "cuda:0 stream 7"] == [0, 0]


def test_waiting_that_the_profiler_shows_on_a_stream_is_not_its_work():
    sync = event("cuda_sync", "Stream Sync", 62, 100, 0, 7)
    assert timeline_of([*GPU_EVENTS, sync], {}).spans == timeline_of(GPU_EVENTS, {}).spans


def test_a_profiler_that_sees_no_device_gives_a_timeline_without_it():
    """CUDA without its profiling library: the host's side is all there is."""
    t = timeline_of([e for e in GPU_EVENTS if e.device_type() == DEVICE.CPU], {})
    assert t.devices == ["CPU"] and t.lanes == ["main thread", "backward thread"]
    t.plot().figure.canvas.draw()


@pytest.mark.parametrize("kind", [DEVICE.XPU, DEVICE.HPU, DEVICE.MTIA])
def test_devices_have_torchs_names_in_the_order_of_their_numbers(kind):
    word, numbers = kind.name.lower(), [10, 2, 0, 2]
    t = timeline_of(
        [event("user_annotation", CALL, 0, 9), event("cpu_op", "aten::mm", 1, 5)]
        + [event("kernel", "gemm", 3 + 9 * i, 8, n, 3, kind) for i, n in enumerate(numbers)],
        {},
    )
    assert t.devices == ["CPU", f"{word}:0", f"{word}:2", f"{word}:10"]
    assert t.lanes[1:] == [f"{word}:{n} stream 3" for n in (0, 2, 10)]


def test_several_threads_of_one_name_have_several_lanes():
    """Autograd has a thread for each device."""
    name = "autograd::engine::evaluate_function: MmBackward0"
    more = [event("cpu_op", name, 41, 5, PID, 3), event("cpu_op", "aten::mm", 42, 5, PID, 9)]
    t = timeline_of([*GPU_EVENTS, *more], {9: "pump"}, caller="pump")
    assert t.lanes[:4] == ["pump", "backward thread", "backward thread (2)", "pump (2)"]
    assert timeline_of([*GPU_EVENTS, *more], {}).lanes[3] == "thread"


def test_threads_are_told_apart_where_only_torch_numbers_them():
    """Builds without the profiler's library know no number of a process or a thread."""
    events = [event("user_annotation", CALL, 0, 9, 0, 0)]
    events += [event("cpu_op", "aten::mm", i, 1, 0, 0) for i in (1, 3)]
    events[-1].start_thread_id = lambda: 2
    assert timeline_of(events, {}).lanes == ["main thread", "thread"]


def test_a_span_without_an_end_has_no_negative_duration():
    events = [event("user_annotation", CALL, 0, 9), event("cpu_op", "aten::mm", 3, -2)]
    assert [s.duration_s for s in timeline_of(events, {}).spans] == [0]


def test_a_timeline_of_events_starts_at_the_call():
    events = [
        event("kernel", "before", 0.09, 0.005, 0, 7),
        event("user_annotation", CALL, 0.1, 0.1),
        event("cpu_op", "op", 0.11, 0.04),
        event("cpu_op", "after", 0.2, 0.1),
    ]
    t = timeline_of(events, {}, called_ns=5_000)
    assert [(s.name, s.start_s) for s in t.spans] == [("before", -1e-8), ("op", 1e-8)]
    own = Timeline.from_spans([("own", 5e-6, 1e-9, "x")])
    merged = Timeline.merge({"a": t, "b": own})
    starts = {s.name: round(1e9 * s.start_s) for s in merged.spans}
    assert starts["op"] - starts["own"] == 10


@pytest.mark.skipif(not toy_device.supported(), reason="this torch has no hooks in Python")
@pytest.mark.parametrize("count", [1, 2])
def test_an_accelerator_of_any_kind_is_asked_for(count):
    """The profiler records PrivateUse1 devices where there are some, and none crashes it."""
    done = run_fresh(
        f"""
import torch, toy_device
from types import SimpleNamespace as Says
toy_device.install({count})
from d2lperf.timeline import record
from d2lperf.timeline.record import CALL, timeline_of

made, real = [], torch.profiler.profile
torch.profiler.profile = lambda *args, **options: made.append(real(*args, **options)) or made[-1]
t = record(lambda: torch.relu(torch.ones(3)))
print(torch.profiler.ProfilerActivity.PrivateUse1 in made[-1].activities, t.lanes, t.devices)

says = dict(name="k", device_type=torch.autograd.DeviceType.PrivateUse1, device_index=1,
            device_resource_id=3, start_thread_id=1, start_ns=0, duration_ns=1,
            is_user_annotation=False)
event = Says(**{{key: lambda value=value: value for key, value in says.items()}})
call = Says(**vars(event))
call.name, call.device_type = lambda: CALL, lambda: torch.autograd.DeviceType.CPU
print(timeline_of([call, event], dict()).devices)
""",
        Path(__file__).parents[1],
    )
    assert done.stdout == "True ['main thread'] ['CPU']\n['toy:1']\n", done.stderr


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU of NVIDIA's or AMD's")
def test_a_real_device_has_streams():
    x = torch.ones(1000, 1000, device="cuda")
    t = record(lambda: x @ x)
    assert any(device.startswith("cuda") for device in t.devices)
