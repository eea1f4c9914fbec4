"""Image data: digits offline, Fashion-MNIST fetched, damaged, cut off or absent."""

import gzip
import hashlib
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import broken_outputs
import pytest
import torch

import d2lperf as d2l
from d2lperf import data

# Digits -----------------------------------------------------------------------------------


def test_digits_have_the_documented_shapes_types_and_range():
    X_train, y_train, X_test, y_test = parts = data.digits()
    assert X_train.shape == (1438, 1, 8, 8) and X_test.shape == (359, 1, 8, 8)
    assert y_train.shape == (1438,) and y_test.shape == (359,)
    for X, y in ((X_train, y_train), (X_test, y_test)):
        assert X.dtype == torch.float32 and y.dtype == torch.int64
        assert X.min() == 0 and X.max() == 1
        assert set(y.tolist()) == set(range(10))
    assert parts.X_train is X_train


def test_the_split_is_settled_by_the_seed_alone():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    one, same, other = data.digits(), data.digits(seed=0), data.digits(seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(one, same, strict=True))
    assert not torch.equal(one.y_test, other.y_test)
    # all images are there, in either split
    sums = [torch.cat([parts.X_train, parts.X_test]).sum(0) for parts in (one, other)]
    torch.testing.assert_close(*sums)


@pytest.mark.parametrize("fraction", [0, 1, -0.5, 2, 1e-9])
def test_a_split_with_an_empty_part_is_refused(fraction):
    with pytest.raises(ValueError, match=r"test_fraction=.* of 1797 digits"):
        data.digits(test_fraction=fraction)


def test_scikit_learn_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match="pip install scikit-learn"):
        data.digits()


def test_digits_are_good_enough_to_learn_from():
    X_train, y_train, X_test, y_test = data.digits()
    nearest = torch.cdist(X_test.flatten(1), X_train.flatten(1)).argmin(1)
    assert (y_train[nearest] == y_test).double().mean() > 0.97


def test_loaders_give_batches_that_cover_everything():
    train_iter, test_iter = data.load_data_digits(256)
    sizes = []
    for X, y in train_iter:
        assert X.shape[1:] == (1, 8, 8) and X.dtype == torch.float32 and y.dtype == torch.int64
        sizes.append(len(y))
    assert sizes == [256] * 5 + [158]
    assert sum(len(y) for _, y in test_iter) == 359
    # the test part comes in order, the training part shuffled by torch's global generator
    assert torch.equal(torch.cat([y for _, y in test_iter]), data.digits().y_test)
    torch.manual_seed(0)
    first = next(iter(train_iter))[1]
    torch.manual_seed(0)
    assert torch.equal(next(iter(train_iter))[1], first)
    assert not torch.equal(next(iter(train_iter))[1], first)


@pytest.mark.parametrize(("resize", "shape"), [(28, (28, 28)), ((16, 20), (16, 20)), (4, (4, 4))])
def test_resize(resize, shape):
    X, _ = next(iter(data.load_data_digits(8, resize)[1]))
    assert X.shape == (8, 1, *shape)
    assert X.min() >= 0 and X.max() <= 1
    plain, _ = next(iter(data.load_data_digits(8)[1]))
    torch.testing.assert_close(X.mean((1, 2, 3)), plain.mean((1, 2, 3)), rtol=0.1, atol=0.02)


@pytest.mark.parametrize(
    "bad",
    [{"batch_size": 0}, *({"batch_size": 4, "resize": n} for n in ((1, 2, 3), -1, 0, (), 4.5))],
)
def test_loader_arguments_that_make_no_sense(bad):
    with pytest.raises(ValueError, match=next(n for n in ("resize", "batch_size") if n in bad)):
        data.load_data_digits(**bad)


# Fashion-MNIST ----------------------------------------------------------------------------


def idx(tensor: torch.Tensor) -> bytes:
    sizes = b"".join(n.to_bytes(4, "big") for n in tensor.shape)
    return gzip.compress(bytes([0, 0, 8, tensor.ndim]) + sizes + bytes(tensor.flatten().tolist()))


@pytest.fixture(scope="module")
def small():
    """Four files like Fashion-MNIST's, with a few images each."""
    generator = torch.Generator().manual_seed(0)
    tensors = []
    for n in (12, 4):
        tensors.append(torch.randint(256, (n, 28, 28), generator=generator, dtype=torch.uint8))
        tensors.append(torch.arange(n, dtype=torch.uint8) % 10)
    return dict(zip(data.FILES, tensors, strict=True))


class Mirror(BaseHTTPRequestHandler):
    """Serves `server.files`; paths that begin with `server.trouble` get what it says."""

    def do_GET(self):
        self.server.asked.append(self.path)
        raw = self.server.files[self.path.rpartition("/")[2]]
        trouble = next((t for p, t in self.server.trouble.items() if self.path.startswith(p)), "")
        self.send_response(404 if trouble == "absent" else 200)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw[: len(raw) // 2] if trouble == "cut off" else raw[::-1]
                         if trouble == "damaged" else raw)  # fmt: skip

    def log_message(self, *words):
        pass


@pytest.fixture
def web(small, monkeypatch, tmp_path):
    """Two mirrors on this machine, at /one/ and /two/; what they serve may be changed by a test."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    server.files = {name: idx(tensor) for name, tensor in small.items()}
    server.asked, server.trouble, server.folder = [], {}, tmp_path / "cache"
    address = f"http://127.0.0.1:{server.server_port}"
    sums = {n: hashlib.md5(raw).hexdigest() for n, raw in server.files.items()}
    monkeypatch.setattr(data, "FILES", sums)
    monkeypatch.setattr(data, "MIRRORS", [f"{address}/one/", f"{address}/two/"])
    monkeypatch.setenv("D2LPERF_DATA", str(server.folder))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    monkeypatch.chdir(tmp_path)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_fetched_once_and_read_as_tensors(web, small, capsys):
    train_iter, test_iter = d2l.load_data_fashion_mnist(5)
    X, y = next(iter(test_iter))
    images, labels = list(small.values())[2:]
    assert X.shape == (4, 1, 28, 28) and X.dtype == torch.float32
    assert torch.equal(X[:, 0], images.float() / 255)
    assert y.dtype == torch.int64 and y.tolist() == labels.tolist()
    assert [len(y) for _, y in train_iter] == [5, 5, 2]
    assert len(web.asked) == 4
    assert sorted(p.name for p in web.folder.iterdir()) == sorted(web.files)
    shown = capsys.readouterr()
    assert all(name in shown.err for name in web.files)
    assert str(web.folder) not in shown.out + shown.err
    d2l.load_data_fashion_mnist(5)  # the second time from the folder, silently
    assert len(web.asked) == 4 and capsys.readouterr() == ("", "")


def test_quiet_on_demand(web, capsys):
    d2l.load_data_fashion_mnist(4, progress=False)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("trouble", ["absent", "cut off", "damaged"])
def test_the_next_mirror_is_asked(web, trouble):
    web.trouble["/one/train"] = trouble
    d2l.load_data_fashion_mnist(4)
    assert [path.split("/")[1] for path in web.asked] == ["one", "two", "one", "two", "one", "one"]
    web.trouble["/"] = trouble
    other = web.folder / "other"
    with pytest.raises(data.DatasetNotAvailable) as error:
        d2l.load_data_fashion_mnist(4, root=other)
    message = str(error.value)
    for part in (*data.MIRRORS, "load_data_digits", "D2LPERF_DATA", str(other)):
        assert part in message
    assert isinstance(error.value, OSError)
    assert list(other.iterdir()) == []


def test_not_to_be_fetched(web):
    with pytest.raises(data.DatasetNotAvailable, match=r"train-images.* is not in"):
        d2l.load_data_fashion_mnist(4, download=False)
    assert web.asked == [] and not web.folder.exists()


def test_an_interrupt_leaves_no_half_written_file(web, monkeypatch):
    def interrupted(self, url, file, pooch):
        Path(file).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("pooch.HTTPDownloader.__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        d2l.load_data_fashion_mnist(4)
    assert list(web.folder.iterdir()) == []


def test_a_folder_that_cannot_be_written(web, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(data.DatasetNotAvailable, match=r"cannot be stored in .*file.*root="):
        d2l.load_data_fashion_mnist(4, root=tmp_path / "file" / "folder")

    # A read-only folder is simulated: an administrator may write everywhere.
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    (tmp_path / "locked").mkdir()
    with pytest.raises(data.DatasetNotAvailable, match=r"Permission denied.*D2LPERF_DATA or root="):
        d2l.load_data_fashion_mnist(4, root=tmp_path / "locked")


@pytest.mark.parametrize("how", broken_outputs.KINDS)
def test_a_closed_stdout_costs_no_download(web, monkeypatch, how):
    monkeypatch.setattr(sys, "stdout", broken_outputs.unwritable(how))
    train, _ = d2l.load_data_fashion_mnist(4)
    assert len(train) == 3 and len(web.asked) == 4  # from the first mirror, each once


def test_a_damaged_file_in_the_folder_is_replaced(web):
    d2l.load_data_fashion_mnist(4)
    damaged = web.folder / "t10k-labels-idx1-ubyte.gz"
    damaged.write_bytes(b"broken")
    d2l.load_data_fashion_mnist(4)
    assert damaged.read_bytes() == web.files[damaged.name]


def test_a_damaged_file_is_not_called_absent(web):
    web.folder.mkdir()
    (web.folder / "train-images-idx3-ubyte.gz").write_bytes(b"broken")
    with pytest.raises(data.DatasetNotAvailable, match=r"is damaged in .*another MD5 sum") as error:
        d2l.load_data_fashion_mnist(4, download=False)
    assert f"Put it into {web.folder}" in str(error.value)
    assert "is not in" not in str(error.value)


def test_what_the_books_function_has_left_is_used(web, tmp_path, monkeypatch):
    raw = tmp_path / "data" / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for name, content in web.files.items():
        (raw / name).write_bytes(content)
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    d2l.load_data_fashion_mnist(4)
    assert web.asked == [] and not web.folder.exists()


def test_without_a_folder_of_ones_own_the_users_cache_is_used(web, tmp_path, monkeypatch):
    monkeypatch.delenv("D2LPERF_DATA")
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / name)
    d2l.load_data_fashion_mnist(4)
    assert sorted(p.name for p in (tmp_path / "d2lperf" / "fashion-mnist").iterdir())


# Splitting a batch ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "devices", "sizes"),
    [(4, 2, [2, 2]), (5, 2, [3, 2]), (5, 4, [2, 1, 1, 1]), (3, 1, [3])],
)
def test_split_batch_gives_every_device_work(rows, devices, sizes):
    X, y = torch.rand(rows, 1, 2, 2), torch.arange(rows)
    Xs, ys = d2l.split_batch(X, y, ["cpu"] * devices)
    assert [len(part) for part in Xs] == [len(part) for part in ys] == sizes
    assert torch.equal(torch.cat(Xs), X) and torch.equal(torch.cat(ys), y)


def test_split_batch_puts_each_part_on_its_device():
    Xs, ys = d2l.split_batch(torch.rand(4, 2), torch.rand(4), ["cpu", torch.device("meta")])
    assert [part.device.type for part in (*Xs, *ys)] == ["cpu", "meta"] * 2


def test_gradients_flow_back_through_the_split():
    X = torch.rand(4, 2, requires_grad=True)
    Xs, _ = d2l.split_batch(X, torch.zeros(4), ["cpu", "cpu"])
    (Xs[0].sum() + 2 * Xs[1].sum()).backward()
    assert X.grad[:, 0].tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("X", "y", "devices", "words"),
    [
        ((4, 2), (3,), 2, [r"\(4, 2\)", r"\(3,\)", "different numbers of rows"]),
        ((4, 2), (4,), 0, ["0 devices", "try_all_gpus"]),
        ((2, 5), (2,), 3, [r"\(2, 5\)", "3 devices"]),
        ((), (), 1, [r"\(\)"]),
    ],
)
def test_split_batch_says_what_does_not_fit(X, y, devices, words):
    with pytest.raises(ValueError) as error:
        d2l.split_batch(torch.zeros(X), torch.zeros(y), ["cpu"] * devices)
    for word in words:
        assert error.match(word)
