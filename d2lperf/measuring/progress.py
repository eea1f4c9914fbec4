"""A progress bar over the seconds that measuring may take."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(wanted: bool | None, seconds: float) -> Iterator[Callable[[float], None]]:
    """Yield a function that shows how many seconds have passed, by default from the first on."""
    total, bars = round(seconds, 1), []
    # tqdm.auto ignores the variable in a notebook's kernel.
    off = wanted is False or os.environ.get("TQDM_DISABLE", "") not in ("", "0")

    def show(passed: float) -> None:
        if not off and not bars and (wanted or passed > 1):
            from tqdm.auto import tqdm

            layout = "{l_bar}{bar}| {n:.1f} of at most {total:.1f} s"
            bars.append(tqdm(total=total, bar_format=layout, leave=False))
        for bar in bars:
            bar.update(min(total, passed) - bar.n)

    try:
        yield show
    finally:
        for bar in bars:
            bar.close()
