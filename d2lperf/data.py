"""Image data for the notebooks: scikit-learn's digits offline, Fashion-MNIST by choice.

Images are float32 of shape (N, 1, height, width) from 0 to 1; labels are int64 (N,) from 0 to 9.
"""

from __future__ import annotations

import gzip
import os
from collections import namedtuple
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import interpolate
from torch.utils import data

from d2lperf.progress import bar_wanted

MIRRORS = (
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)
# The MD5 sums that the authors of Fashion-MNIST published.
FILES = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}

Digits = namedtuple("Digits", ["X_train", "y_train", "X_test", "y_test"])


class DatasetNotAvailable(OSError):
    """A data set is neither on this machine nor available from its mirrors."""


def digits(*, test_fraction: float = 0.2, seed: int = 0) -> Digits:
    """Return the 1797 handwritten digits that come with scikit-learn, without a network.

    Args:
        test_fraction: share of the images kept for testing, between 0 and 1 (both excluded).
        seed: seed of the shuffle before the split. torch's global random state is not used.

    Returns:
        `X_train` (N, 1, 8, 8) float32 from 0 to 1, `y_train` (N,) int64, `X_test`, `y_test`.

    Raises:
        ValueError: the fraction leaves one part empty.
        ImportError: scikit-learn is not installed.

    Source: E. Alpaydin and C. Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine
    Learning Repository, 1998 (its test part).
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError("the digits come with scikit-learn: pip install scikit-learn") from error
    X, y = map(torch.from_numpy, load_digits(return_X_y=True))
    X = X.to(torch.float32).div_(16).reshape(-1, 1, 8, 8)  # pixels from 0 to 16
    n_test = round(test_fraction * len(y))
    if not 0 < n_test < len(y):
        raise ValueError(f"{test_fraction=} takes {n_test} of {len(y)} digits: one part is empty")
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    test, train = order[:n_test], order[n_test:]
    return Digits(X[train], y[train].long(), X[test], y[test].long())


def _loaders(parts: Digits, batch_size: int, resize: Any) -> tuple[Any, Any]:
    size = resize if isinstance(resize, Sequence) or resize is None else (resize, resize)
    if size is not None and not (
        len(size) == 2 and all(isinstance(side, Integral) and int(side) > 0 for side in size)
    ):
        raise ValueError(f"resize is {resize!r}; give a side in pixels, or (height, width)")

    def convert(batch: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        X, y = batch
        if X.dtype == torch.uint8:
            X = X.to(torch.float32).div_(255)
        if size is not None and X.shape[-2:] != tuple(size):
            X = interpolate(X, tuple(map(int, size)), mode="bilinear", antialias=True).clamp_(0, 1)
        return [X, y]

    def loader(images: data.TensorDataset, sampler: type) -> data.DataLoader:
        batches = data.BatchSampler(sampler(images), batch_size, drop_last=False)
        return data.DataLoader(images, batch_size=None, sampler=batches, collate_fn=convert)

    train, test = data.TensorDataset(*parts[:2]), data.TensorDataset(*parts[2:])
    return loader(train, data.RandomSampler), loader(test, data.SequentialSampler)


def load_data_digits(batch_size: int, resize: Any = None, **split: Any) -> tuple[Any, Any]:
    """Return loaders of the digits: `load_data_fashion_mnist` without a network.

    Args:
        batch_size, resize: as there; None keeps 8 by 8, 28 gives the shape of Fashion-MNIST.
        split: `test_fraction` and `seed`, as in `digits`.
    """
    return _loaders(digits(**split), batch_size, resize)


def load_data_fashion_mnist(
    batch_size: int,
    resize: int | tuple[int, int] | None = None,
    *,
    root: str | os.PathLike[str] | None = None,
    download: bool = True,
    progress: bool = True,
) -> tuple[Any, Any]:
    """Return loaders of Fashion-MNIST; called like the book's function of this name.

    It needs no torchvision and no worker processes: the images stay in memory as bytes (55 MB).

    Args:
        batch_size: images in a batch; the last batch may be smaller.
        resize: side in pixels, or (height, width); None keeps 28 by 28. 0 is an error.
        root: folder of the files; by default `$D2LPERF_DATA`, then d2lperf's folder in the user's
            cache. Files that the book's function left in `../data` are used where they are.
        download: fetch missing files (31 MB). Each is checked before it appears in the folder.
        progress: show a progress bar for each file that is fetched.

    Returns:
        `(train_iter, test_iter)`. Each gives `[X, y]` with `X` float32 of shape (batch, 1,
        height, width) from 0 to 1 and `y` int64 of shape (batch,). As in the book, torch's global
        generator draws the order of the training batches.

    Raises:
        DatasetNotAvailable: a file is missing and cannot be fetched, stored or read.
        ValueError: an invalid batch size or side.

    Source: H. Xiao, K. Rasul and R. Vollgraf, *Fashion-MNIST*, 2017, arXiv:1708.07747.
    """
    paths = [_file(name, root, download, progress) for name in FILES]
    X, y, X_test, y_test = map(_read_idx, paths)
    parts = Digits(X.unsqueeze(1), y.long(), X_test.unsqueeze(1), y_test.long())
    return _loaders(parts, batch_size, resize)


def _file(name: str, root: Any, download: bool, progress: bool) -> Path:
    """The path of a file with the right bytes, fetched where it is missing."""
    import pooch
    import requests
    from tqdm.auto import tqdm

    folder = root or os.environ.get("D2LPERF_DATA") or pooch.os_cache("d2lperf") / "fashion-mnist"
    problem, off = f"is not in {folder}", not bar_wanted(progress)
    for path in (Path(folder, name), Path("..", "data", "FashionMNIST", "raw", name)):
        if path.is_file() and pooch.file_hash(path, "md5") == FILES[name]:
            return path
        if path.is_file():
            problem = f"is damaged in {path.parent}: it has another MD5 sum than it should"
    pooch.get_logger().setLevel("WARNING")  # it would write the folder to stderr
    for mirror in MIRRORS if download else ():
        try:
            with tqdm(desc=name, total=1, unit="B", unit_scale=True, disable=off) as bar:
                get = pooch.HTTPDownloader(bar, 2**18, headers={"Accept-Encoding": "identity"})
                url, md5 = mirror + name, f"md5:{FILES[name]}"
                return Path(pooch.retrieve(url, md5, name, folder, downloader=get))
        except (requests.RequestException, ValueError) as error:  # ValueError: the wrong bytes
            problem += f"\n  {mirror}: {error}"
        except OSError as error:
            problem = f"cannot be stored in {folder}: {error}"
            break
    raise DatasetNotAvailable(
        f"Fashion-MNIST: {name} {problem}. Put it into {folder} from a machine with a network, "
        "choose another folder with D2LPERF_DATA or root=, or use d2lperf.data.load_data_digits()."
    )


def _read_idx(path: Path) -> torch.Tensor:
    """Read the IDX format: two zero bytes, type, rank, big-endian sizes, values."""
    raw = bytearray(gzip.decompress(path.read_bytes()))
    shape = [int.from_bytes(raw[4 * i : 4 * i + 4], "big") for i in range(1, raw[3] + 1)]
    return torch.frombuffer(raw, dtype=torch.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def split_batch(
    X: torch.Tensor, y: torch.Tensor, devices: Sequence[torch.device | str | int]
) -> tuple[tuple[torch.Tensor, ...], ...]:
    """Cut a batch along its first axis, one piece for each device.

    Like the book's function of this name, but for devices of any kind, the CPU included. If the
    rows do not divide evenly, the first devices get one more each. Gradients flow back.

    Args:
        X, y: features and labels, shapes (batch, ...).
        devices: at least one, at most one for each row.

    Returns:
        Two tuples of tensors, the i-th on `devices[i]`, in the order of the rows.

    Raises:
        ValueError: different numbers of rows, no devices, or more devices than rows.

    >>> X, y = torch.arange(10).reshape(5, 2), torch.arange(5)
    >>> [tuple(part.shape) for part in split_batch(X, y, ["cpu", "cpu"])[0]]
    [(3, 2), (2, 2)]
    """
    if X.shape[:1] != y.shape[:1]:
        raise ValueError(f"different numbers of rows: X {tuple(X.shape)}, y {tuple(y.shape)}")
    if not 0 < len(devices) <= (len(X) if X.ndim else 0):
        raise ValueError(
            f"{len(devices)} devices for a batch of shape {tuple(X.shape)}: give at least one "
            "device (try_all_gpus() always does) and at most one for each row"
        )

    def cut(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
        parts = zip(tensor.tensor_split(len(devices)), devices)
        from_cpu = tensor.device.type == "cpu"  # a copy from a GPU has to be waited for
        return tuple(part.to(device, non_blocking=from_cpu) for part, device in parts)

    return cut(X), cut(y)
