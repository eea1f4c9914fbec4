"""The book's library: the drop-in beside the original, on any build, and when it is absent."""

import contextlib
import gzip
import hashlib
import io
import json
import re
import sys
import types
from pathlib import Path

import pytest
import torch
from fresh import run_fresh
from torch import nn

import d2lperf as d2l
from d2lperf import book, data

# What the PyTorch cells of the book's chapter 13 take from its library.
CHAPTER = {
    *("Animator", "Benchmark", "Residual", "Timer", "plot", "resnet18", "set_figsize", "sgd"),
    *("evaluate_accuracy_gpu", "load_data_fashion_mnist", "split_batch"),
    *("try_all_gpus", "try_gpu", "num_gpus", "cpu", "gpu"),
}

needs_book = pytest.mark.skipif(not book.installed(), reason="the book's library is not installed")


def printed(code: str, *folders: Path, **env: str):
    """What code prints in a fresh process; packages in `folders` come before installed ones."""
    done = run_fresh(code, *folders, MPLBACKEND="agg", **env)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def original():
    if not book.installed():
        pytest.skip("the book's library is not installed")
    return book.load()


# Names ------------------------------------------------------------------------------------


def test_every_name_of_the_chapter_is_ours_or_the_books(original):
    for name in CHAPTER | set(book.NAMES):
        assert hasattr(original, name), name
        if name in book.NAMES:
            assert getattr(d2l, name) is getattr(original, name), name
        else:
            assert name in d2l.__all__ and hasattr(d2l, name), name


# Loading ----------------------------------------------------------------------------------


@needs_book
def test_load_is_quiet_leaves_no_traces_and_happens_once():
    code = """
import json, logging, random, sys, threading, warnings
import matplotlib, numpy, torch
import d2lperf.book
def state():
    return [dict(matplotlib.rcParams), matplotlib.get_backend(), list(warnings.filters),
            random.getstate(), numpy.random.get_state()[1].tolist(),
            torch.get_rng_state().tolist(), torch.get_default_dtype(), torch.get_num_threads(),
            torch.is_grad_enabled(), logging.root.level, list(logging.root.handlers)]
warnings.simplefilter("default")
before, found = state(), []
threads = [threading.Thread(target=lambda: found.append(d2lperf.book.load())) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
after = state()
warnings.simplefilter("ignore")  # what others say when Python ends is not our matter
print(json.dumps([[i for i, (a, b) in enumerate(zip(before, after)) if str(a) != str(b)],
                  len(found), len(set(map(id, found))), found[0].__name__,
                  found[0] is sys.modules["d2l.torch"]]))
"""
    assert printed(code) == [[], 8, 1, "d2l.torch", True]


def fakes(folder: Path, torchvision: str, book: str = "") -> Path:
    """Put made-up packages torchvision and d2l, with this code, into a folder."""
    for name in ("torchvision", "d2l"):
        (folder / name).mkdir()
    (folder / "torchvision" / "__init__.py").write_text(f"from . import leftover\n{torchvision}\n")
    (folder / "torchvision" / "leftover.py").touch()
    (folder / "d2l" / "__init__.py").touch()
    (folder / "d2l" / "torch.py").write_text(book)
    return folder


LOOK = """
import json, sys, torch
import d2lperf.book
first = sys.modules.get("torchvision")
try:
    module = d2lperf.book.load()
except ImportError as error:
    print(json.dumps([type(error).__name__, str(error), str(error.__cause__)]))
else:
    import torchvision
    print(json.dumps([module.__name__, torchvision.TRIES, hasattr(torch.ops.torchvision, "nms")]))
"""


@needs_book
def test_a_torchvision_that_works_is_not_touched(tmp_path):
    path = fakes(tmp_path, "TRIES = 1")
    assert printed(LOOK, path) == ["d2l.torch", 1, False]


MISSING = """
import sys, torch
torch.tries = getattr(torch, "tries", 0) + 1
TRIES = torch.tries
import torchvision
stale = hasattr(torchvision.leftover, "OLD")  # no such attribute if it's there from before
leftover.OLD = True
@torch.library.register_fake("torchvision::nms")
def nms(dets, scores, iou_threshold): ...
@torch.library.register_fake("torchvision::qnms")
def qnms(dets, scores, iou_threshold): ...
assert not stale, "a module of the failed import was taken for a whole one"
"""


@needs_book
def test_missing_operators_are_declared_and_the_import_starts_afresh(tmp_path):
    path = fakes(tmp_path, MISSING)
    assert printed(LOOK, path) == ["d2l.torch", 2, True]
    # the same where somebody has tried, and failed, before
    before = "try:\n    import torchvision\nexcept RuntimeError as e: print(e)\n"
    assert printed(before + LOOK, path) == ["d2l.torch", 3, True]


@needs_book
def test_another_trouble_of_torchvision_is_told_not_cured(tmp_path):
    path = fakes(tmp_path, "raise RuntimeError('compiled with another CUDA')")
    kind, message, cause = printed(LOOK, path)
    assert kind == "BookImportError"
    assert cause == "compiled with another CUDA"
    assert "torchvision" in message and torch.__version__ in message and cause in message


@needs_book
def test_the_cure_is_tried_once(tmp_path):
    code = "raise RuntimeError('operator torchvision::nms does not exist')"
    kind, message, _ = printed(LOOK, fakes(tmp_path, code))
    assert kind == "BookImportError"
    assert "torchvision::nms" in message


# Absent -----------------------------------------------------------------------------------


@pytest.fixture
def not_loaded(monkeypatch):
    monkeypatch.setattr(book, "_book", None)
    for name in book.NAMES:
        monkeypatch.delitem(vars(d2l), name, raising=False)
    return monkeypatch


def test_d2l_absent(not_loaded):
    not_loaded.setitem(sys.modules, "d2l", None)
    with pytest.raises(book.BookNotInstalled) as error:
        d2l.Animator  # noqa: B018
    assert isinstance(error.value, ImportError)
    assert "pip install --no-deps d2l==1.0.3" in str(error.value)
    assert not book.installed()
    with pytest.raises(AttributeError, match="Did you mean 'Animator'"):
        d2l.Animater  # noqa: B018
    assert d2l.try_gpu().type and d2l.Timer().stop() >= 0  # ours need no book


def test_what_the_book_imports_is_absent(not_loaded):
    for name in ("torchvision", "pandas"):
        not_loaded.setitem(sys.modules, name, None)
    not_loaded.setitem(sys.modules, "d2l", types.SimpleNamespace(__spec__="there"))
    with pytest.raises(book.BookNotInstalled, match="pip install pandas torchvision") as error:
        book.load()
    assert "not installed: pandas, torchvision." in str(error.value)
    assert "d2l==" not in str(error.value)


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("import left_pad", "BookNotInstalled", "needs the package 'left_pad'"),
        ("raise OSError('the disk is on fire')", "BookImportError", "OSError: the disk is on fire"),
    ],
)
@needs_book
def test_a_book_that_cannot_be_imported(tmp_path, line, kind, words):
    found, message, cause = printed(LOOK, fakes(tmp_path, "TRIES = 1", line))
    assert found == kind and words in message and cause in message


def test_import_is_tried_again_after_a_failure(not_loaded, original):
    with not_loaded.context() as here:
        here.setitem(sys.modules, "d2l", None)
        with pytest.raises(book.BookNotInstalled):
            book.load()
    assert book.load() is original


# The same results from both ---------------------------------------------------------------


def test_devices(original):
    assert d2l.cpu() == original.cpu()
    assert d2l.try_gpu() == original.try_gpu()
    assert d2l.num_gpus() >= original.num_gpus()  # ours counts other makes, too
    if original.num_gpus() or not d2l.num_gpus():
        assert d2l.gpu(3) == original.gpu(3)
    # The book's gives an empty list on a CPU, against its own words.
    assert d2l.try_all_gpus() == (original.try_all_gpus() or [original.cpu()])


def test_benchmark_prints_the_same_line(original):
    lines = []
    for Benchmark in (d2l.Benchmark, original.Benchmark):
        for description in ((), ("eager",)):
            out = io.StringIO()
            with contextlib.redirect_stdout(out), Benchmark(*description) as benchmark:
                assert isinstance(benchmark, Benchmark)
            lines.append(re.sub(r"\d", "0", out.getvalue()))
    assert lines == ["Done: 0.0000 sec\n", "eager: 0.0000 sec\n"] * 2


class Scatter:
    """What cuts a batch in `nn.parallel.scatter`, on devices of any kind.

    torch's own asks for GPUs; on them it is `chunk`, with each piece moved to its device.
    """

    @staticmethod
    def apply(devices, chunk_sizes, dim, tensor):
        assert chunk_sizes is None
        pieces = tensor.chunk(len(devices), dim)
        return tuple(piece.to(device) for piece, device in zip(pieces, devices))


@pytest.mark.parametrize("rows, number", [(6, 3), (4, 1), (8, 8), (7, 3), (4, 3)])
def test_split_batch_on_cpus(rows, number, original, monkeypatch):
    """The book's own function on CPUs, with what refuses them there replaced."""
    monkeypatch.setattr(nn.parallel.scatter_gather, "Scatter", Scatter)
    X = torch.arange(rows * 6.0).reshape(rows, 2, 3).requires_grad_()
    y = torch.arange(rows)
    devices = [torch.device("cpu")] * number
    for mine, theirs, whole in zip(
        d2l.split_batch(X, y, devices), original.split_batch(X, y, devices), (X, y), strict=True
    ):
        assert type(mine) is type(theirs) is tuple
        assert len(mine) == number
        assert torch.equal(torch.cat(mine), whole) and torch.equal(torch.cat(theirs), whole)
        assert [p.requires_grad for p in mine] == [whole.requires_grad] * number
        if rows % number == 0:
            assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
        else:  # as our docstring says: shared out, where the book's last devices get less or none
            assert {len(p) for p in mine} == {rows // number, rows // number + 1}
            assert len(theirs[-1]) <= len(mine[-1]) or len(theirs) < number


@pytest.mark.parametrize("size", [(), ((3, 2),), ((7.5, 4),)])
def test_set_figsize(size, original, monkeypatch):
    import matplotlib

    # That the book's switches Jupyter to SVG as well is said in our docstring; it starts a shell.
    switched = []
    monkeypatch.setattr(original, "use_svg_display", lambda: switched.append(1))
    found = []
    for set_figsize in (d2l.set_figsize, original.set_figsize):
        with matplotlib.rc_context({"figure.figsize": (1, 1)}):
            before = dict(matplotlib.rcParams)
            assert set_figsize(*size) is None
            after = dict(matplotlib.rcParams)
        found.append({key: after[key] for key in after if after[key] != before[key]})
    assert found[0] == found[1] == {"figure.figsize": list(size[0] if size else (3.5, 2.5))}
    assert switched == [1]


@pytest.fixture
def fashion(tmp_path, monkeypatch, original):
    """A few images where the book's function leaves Fashion-MNIST's, as it leaves them."""
    generator = torch.Generator().manual_seed(0)
    folder = tmp_path / "data" / "FashionMNIST" / "raw"
    folder.mkdir(parents=True)
    sums = {}
    for name in data.FILES:
        n = 10 if name.startswith("train") else 5
        size = (n, 28, 28) if "images" in name else (n,)
        values = torch.randint(256 if "images" in name else 10, size, generator=generator)
        head = bytes([0, 0, 8, len(size)]) + b"".join(k.to_bytes(4, "big") for k in size)
        raw = head + bytes(values.flatten().tolist())
        (folder / name.removesuffix(".gz")).write_bytes(raw)
        (folder / name).write_bytes(gzip.compress(raw))
        sums[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    monkeypatch.setattr(data, "FILES", sums)
    monkeypatch.setenv("D2LPERF_DATA", str(tmp_path / "none"))
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    # The book's loaders start four processes each, ours none: what comes out is the question.
    monkeypatch.setattr(original, "get_dataloader_workers", lambda: 0)
    return original


@pytest.mark.parametrize("resize", [None, 14, (32, 20)])
def test_load_data_fashion_mnist(resize, fashion):
    arguments = (4,) if resize is None else (4, resize)
    found = []
    for loaders in (d2l, fashion):
        train, test = loaders.load_data_fashion_mnist(*arguments)
        torch.manual_seed(3)  # the order of the training batches is drawn from it, in both
        found.append([list(train), list(train), list(test)])
    for mine, theirs in zip(*found, strict=True):
        assert [len(batch) for batch in mine] == [len(batch) for batch in theirs]
        for (X, y), (X_, y_) in zip(mine, theirs, strict=True):
            assert X.dtype == X_.dtype and X.shape == X_.shape
            assert y.dtype == y_.dtype and torch.equal(y, y_)
            if resize in (None, 28):
                assert torch.equal(X, X_)
            else:  # theirs rounds to whole grey levels, of which there are 255, once for each axis
                torch.testing.assert_close(X, X_, rtol=0, atol=1.5 / 255)


CHAPTER_PROGRAM = """
import json, os, warnings
import torch
from torch import nn
import d2lperf as d2l

warnings.filterwarnings("ignore", message="try_gpu")  # there may be fewer than we ask for

# Several devices from scratch, in the manner of section 13.5: every device has its own copy of
# the parameters and a part of the batch; gradients are added up.
def forward(X, params):
    hidden = torch.relu(X.flatten(1) @ params[0] + params[1])
    return hidden @ params[2] + params[3]

torch.manual_seed(1)
start = [torch.randn(64, 32) * .1, torch.zeros(32), torch.randn(32, 10) * .1, torch.zeros(10)]
loss = nn.CrossEntropyLoss(reduction="none")

def train(number, batch_size, lr):
    train_iter, test_iter = d2l.data.load_data_digits(batch_size)
    devices = [d2l.try_gpu(i) for i in range(number)]
    copies = [[p.clone().to(device).requires_grad_() for p in start] for device in devices]
    animator = d2l.Animator("epoch", "test acc", xlim=[1, 3])
    timer = d2l.Timer()
    for epoch in range(3):
        timer.start()
        for X, y in train_iter:
            Xs, ys = d2l.split_batch(X, y, devices)
            for X_, y_, params in zip(Xs, ys, copies):
                loss(forward(X_, params), y_).sum().backward()
            for same in zip(*copies):
                total = sum(p.grad.to(devices[0]) for p in same)
                for p in same:
                    p.grad[:] = total.to(p.device)
            for params in copies:
                d2l.sgd(params, lr, X.shape[0])
        timer.stop()
        accuracy = d2l.evaluate_accuracy_gpu(lambda x: forward(x, copies[0]), test_iter, devices[0])
        animator.add(epoch + 1, (accuracy,))
    assert len(timer.times) == 3 and timer.avg() > 0
    return animator.Y[0], copies[0][0].detach().cpu()

with d2l.Benchmark("training"):
    torch.manual_seed(2)
    one, weights = train(1, 64, .5)
    torch.manual_seed(2)
    two, again = train(2, 64, .5)
torch.testing.assert_close(weights, again, rtol=1e-3, atol=1e-4)
d2l.set_figsize((3, 2))
d2l.plot(range(3), [one, two], "epoch", "accuracy", legend=["1", "2"])
print()
print(json.dumps([len(one), one[-1] > .8, abs(one[-1] - two[-1]) < .02]))
"""


@needs_book
def test_a_program_in_the_chapters_manner_runs(tmp_path):
    env = {"IPYTHONDIR": str(tmp_path / "ipython"), "MPLCONFIGDIR": str(tmp_path / "mpl")}
    assert printed(CHAPTER_PROGRAM, **env) == [3, True, True]
