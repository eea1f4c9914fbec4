"""Image data for the notebooks: scikit-learn's digits offline, Fashion-MNIST by choice.

Images are float32 tensors of shape (N, 1, height, width) with values from 0 to 1, labels
are int64 tensors of shape (N,) with values from 0 to 9.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

__all__ = [
    "DatasetNotAvailable",
    "Digits",
    "digits",
    "load_data_digits",
    "load_data_fashion_mnist",
    "split_batch",
]

_MIRRORS = (
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)
# name -> (MD5 of the file, as its authors published it; its size in MB, for the progress line)
_FILES = {
    "train-images-idx3-ubyte.gz": ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26.4),
    "train-labels-idx1-ubyte.gz": ("25c81989df183df01b3e8a0aad5dffbe", 0.03),
    "t10k-images-idx3-ubyte.gz": ("bef4ecab320f06d8554ea6380940ec79", 4.4),
    "t10k-labels-idx1-ubyte.gz": ("bb300cfdad3c16e7a12a480ee83cd310", 0.005),
}
_TIMEOUT_S = 30.0


class DatasetNotAvailable(OSError):
    """A data set is neither on this machine nor to be had from its mirrors."""


class Digits(NamedTuple):
    """Handwritten digits, split for training and testing (see `digits`)."""

    X_train: torch.Tensor
    y_train: torch.Tensor
    X_test: torch.Tensor
    y_test: torch.Tensor


def digits(*, test_fraction: float = 0.2, seed: int = 0) -> Digits:
    """The 1797 handwritten digits that come with scikit-learn: no network, no files written.

    Args:
        test_fraction: share of the images kept for testing, between 0 and 1 (both excluded).
        seed: of the shuffle before the split; the same seed gives the same split anywhere.

    Returns:
        Four tensors: ``X_train`` (N, 1, 8, 8) float32 from 0 to 1, ``y_train`` (N,) int64,
        ``X_test`` and ``y_test`` likewise. torch's global random state is left alone.

    Raises:
        ValueError: the fraction leaves one of the two parts empty.
        ImportError: scikit-learn is absent.

    Source: E. Alpaydin and C. Kaynak, *Optical Recognition of Handwritten Digits*, UCI
    Machine Learning Repository, 1998; the test part of it, as in ``sklearn.datasets``.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(
            "the digits come with scikit-learn, which is not installed: pip install scikit-learn",
            name="sklearn",
        ) from error
    raw = load_digits()
    # Pixels are counts from 0 to 16: the number of dark cells in a 4x4 block of the scan.
    X = torch.from_numpy(raw.images).to(torch.float32).div_(16).unsqueeze(1)
    y = torch.from_numpy(raw.target).to(torch.int64)
    n_test = round(test_fraction * len(y))
    if not 0 < n_test < len(y):
        raise ValueError(
            f"test_fraction={test_fraction} would put {n_test} of {len(y)} digits into the test "
            "part; give a fraction between 0 and 1 that leaves both parts non-empty"
        )
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    test, train = order[:n_test], order[n_test:]
    return Digits(X[train], y[train], X[test], y[test])


class _Images(torch.utils.data.Dataset):
    """Images held as small integers, converted (and resized) a batch at a time."""

    def __init__(self, X: torch.Tensor, y: torch.Tensor, size: tuple[int, int] | None) -> None:
        self.X, self.y, self.size = X, y, size

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        X, y = self.__getitems__([i])
        return X[0], y[0]

    def __getitems__(self, indices: Sequence[int]) -> list[torch.Tensor]:
        index = torch.as_tensor(indices)
        X = self.X[index]
        if X.dtype == torch.uint8:
            X = X.to(torch.float32).div_(255)
        if self.size is not None and X.shape[-2:] != self.size:
            X = torch.nn.functional.interpolate(
                X, self.size, mode="bilinear", antialias=True, align_corners=False
            ).clamp_(0, 1)
        return [X, self.y[index]]


def _whole(batch: Any) -> Any:
    return batch


def _loaders(parts: Digits, batch_size: int, resize: Any) -> tuple[Any, Any]:
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; give at least 1")
    size = None
    if resize:
        size = (resize, resize) if isinstance(resize, int) else tuple(resize)
        if len(size) != 2 or min(size) < 1:
            raise ValueError(f"resize is {resize!r}; give a side in pixels, or (height, width)")
    train = _Images(parts.X_train, parts.y_train, size)
    test = _Images(parts.X_test, parts.y_test, size)
    loader = torch.utils.data.DataLoader
    return (
        loader(train, batch_size, shuffle=True, collate_fn=_whole),
        loader(test, batch_size, shuffle=False, collate_fn=_whole),
    )


def load_data_digits(
    batch_size: int,
    resize: int | tuple[int, int] | None = None,
    *,
    test_fraction: float = 0.2,
    seed: int = 0,
) -> tuple[Any, Any]:
    """Loaders over the digits: a stand-in for `load_data_fashion_mnist` without a network.

    Args:
        batch_size: images a batch; the last batch may be smaller.
        resize: side in pixels, or (height, width); ``resize=28`` gives images of the shape
            that Fashion-MNIST has. None keeps 8 by 8.
        test_fraction, seed: as in `digits`. The order of the training batches is drawn from
            torch's global random generator, as in the book.

    Returns:
        ``(train_iter, test_iter)``; each gives ``[X, y]`` with ``X`` float32 of shape
        (batch, 1, height, width) from 0 to 1 and ``y`` int64 of shape (batch,).

    Raises:
        ValueError: a batch size, side or fraction that cannot be.
    """
    return _loaders(digits(test_fraction=test_fraction, seed=seed), batch_size, resize)


def load_data_fashion_mnist(
    batch_size: int,
    resize: int | tuple[int, int] | None = None,
    *,
    root: str | os.PathLike[str] | None = None,
    download: bool = True,
    progress: bool = True,
) -> tuple[Any, Any]:
    """Loaders over Fashion-MNIST: called like the book's function of this name.

    Other than the book's, it needs no torchvision and no worker processes: the images stay
    in memory as bytes (55 MB) and are converted a batch at a time.

    Args:
        batch_size: images a batch; the last batch may be smaller.
        resize: side in pixels, or (height, width); None keeps 28 by 28.
        root: folder of the four files. By default ``$D2LPERF_DATA``, or else d2lperf's folder in
            the user's cache. Files that the book's function has left in ``../data`` are
            used where they are.
        download: fetch missing files (31 MB). Each is checked, and appears in the folder
            only when it is whole.
        progress: print a line for each file that is fetched.

    Returns:
        ``(train_iter, test_iter)``, over 60000 and 10000 images; each gives ``[X, y]`` with
        ``X`` float32 of shape (batch, 1, height, width) from 0 to 1 and ``y`` int64 of
        shape (batch,).

    Raises:
        DatasetNotAvailable: a file is absent, and it was not to be fetched or could not be.
        ValueError: a batch size or side that cannot be.

    Source: H. Xiao, K. Rasul and R. Vollgraf, *Fashion-MNIST: a Novel Image Dataset for
    Benchmarking Machine Learning Algorithms*, arXiv:1708.07747, 2017.
    """
    folder = _data_folder() if root is None else Path(root)
    places = [folder, Path("..", "data", "FashionMNIST", "raw")]
    parts = [
        _read_idx(_find(name, places) or _fetch(name, folder, download, progress))
        for name in _FILES
    ]
    X_train, y_train, X_test, y_test = parts
    data = Digits(X_train.unsqueeze(1), y_train.long(), X_test.unsqueeze(1), y_test.long())
    return _loaders(data, batch_size, resize)


def _data_folder() -> Path:
    chosen = os.environ.get("D2LPERF_DATA")
    if chosen:
        return Path(chosen)
    cache = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "d2lperf" / "fashion-mnist"


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)  # against damage, not against an enemy
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _find(name: str, places: Iterable[Path]) -> Path | None:
    for place in places:
        path = place / name
        if path.is_file() and _md5(path) == _FILES[name][0]:
            return path
    return None


def _fetch(name: str, folder: Path, download: bool, progress: bool) -> Path:
    advice = (
        f"Fetch it where there is a network, put it into {folder} (or point D2LPERF_DATA at a "
        "folder that has it), or use load_data_digits(), which needs no network."
    )
    if not download:
        raise DatasetNotAvailable(f"Fashion-MNIST: {name} is not in {folder}. {advice}")
    temporary = None
    failures = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=name, suffix=".part", dir=folder)
        os.close(handle)
        for mirror in _MIRRORS:
            try:
                if progress:
                    _say(f"Fashion-MNIST: {name}, {_FILES[name][1]:g} MB:")
                _download(mirror + name, Path(temporary), _ticks if progress else _silent)
                found, expected = _md5(Path(temporary)), _FILES[name][0]
                if found != expected:
                    raise OSError(f"what came is damaged: its MD5 is {found}, not {expected}")
                os.replace(temporary, folder / name)
            except OSError as error:
                failures.append(f"{mirror}: {getattr(error, 'reason', None) or error}")
            else:
                if progress:
                    _say(" done\n")
                return folder / name
            if progress:
                _say(" failed\n")
    except OSError as error:
        raise DatasetNotAvailable(
            f"Fashion-MNIST: {name} cannot be stored in {folder}: {error.strerror or error}. "
            "Choose a folder that can be written with D2LPERF_DATA or root=."
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
    tried = "".join(f"\n  {failure}" for failure in failures)
    raise DatasetNotAvailable(
        f"Fashion-MNIST: {name} is not in {folder} and could not be fetched:{tried}\n{advice}"
    )


def _download(url: str, path: Path, report: Callable[[float], None]) -> None:
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=_TIMEOUT_S) as response, path.open("wb") as file:
            total = int(response.headers.get("Content-Length") or 0)
            done = 0
            while block := response.read(1 << 18):
                file.write(block)
                before, done = done, done + len(block)
                if total and 4 * before // total != 4 * done // total:
                    report(done / total)
    except HTTPException as error:  # for example a connection cut in the middle
        raise OSError(f"{type(error).__name__}: {error}") from error


def _ticks(share: float) -> None:
    _say(f" {share:.0%}")  # at every quarter


def _say(text: str) -> None:
    # A closed standard output is no reason to lose a download, or to blame the network.
    with contextlib.suppress(OSError, ValueError):
        print(text, end="", flush=True)


def _silent(share: float) -> None:
    pass


def _read_idx(path: Path) -> torch.Tensor:
    """Read a file of the IDX format: two zero bytes, type, rank, big-endian sizes, bytes."""
    try:
        raw = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetNotAvailable(f"{path} cannot be read: {error}; delete it") from error
    rank = raw[3]
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(rank)]
    flat = torch.frombuffer(bytearray(raw), dtype=torch.uint8, offset=4 + 4 * rank)
    return flat.reshape(shape)


def split_batch(
    X: torch.Tensor, y: torch.Tensor, devices: Sequence[torch.device | str | int]
) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """Cut a batch along its first axis, one piece for each device.

    Like the book's function of this name, and on devices of any kind, the CPU included.
    Where the rows cannot be shared out evenly, the first devices get one more each (the book's
    leaves the last devices without work instead). Gradients flow back through the cut.

    Args:
        X: features, shape (batch, ...).
        y: labels, shape (batch, ...).
        devices: at least one, at most one for each row.

    Returns:
        Two tuples of tensors, the i-th on ``devices[i]``, in the order of the rows.

    Raises:
        ValueError: different numbers of rows, no devices, or more devices than rows.

    >>> X, y = torch.arange(10).reshape(5, 2), torch.arange(5)
    >>> [tuple(part.shape) for part in split_batch(X, y, ["cpu", "cpu"])[0]]
    [(3, 2), (2, 2)]
    """
    if X.shape[:1] != y.shape[:1]:
        raise ValueError(
            f"X and y have different numbers of rows: X has shape {tuple(X.shape)}, "
            f"y has shape {tuple(y.shape)}"
        )
    if not devices:
        raise ValueError("no devices to split over; try_all_gpus() always gives at least one")
    if not X.ndim or len(X) < len(devices):
        raise ValueError(
            f"a batch of shape {tuple(X.shape)} cannot feed {len(devices)} devices: "
            "each needs at least one row"
        )
    pieces = [
        tuple(
            part.to(device, non_blocking=part.device.type == "cpu")  # the other way isn't safe
            for part, device in zip(tensor.tensor_split(len(devices)), devices, strict=True)
        )
        for tensor in (X, y)
    ]
    return pieces[0], pieces[1]
