"""Progress bars: whether to show them, and over seconds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def bar_wanted(asked: bool | None = None) -> bool:
    """Return whether a progress bar may be shown.

    Args:
        asked: False for never. TQDM_DISABLE in the environment (anything but "" and "0") has the
            last word; `tqdm.auto` does not look at it in a notebook.
    """
    return asked is not False and os.environ.get("TQDM_DISABLE", "") in ("", "0")


@contextmanager
def progress_bar(seconds: float, asked: bool | None = None) -> Iterator[Callable[[float], None]]:
    """Show a progress bar over the time that something takes at most.

    Args:
        seconds: at most.
        asked: True shows it at once, None after one second, False never.

    Yields:
        A function to be called with the seconds that have passed since the start.
    """
    total, bar = round(seconds, 1), None

    def show(passed: float) -> None:
        nonlocal bar
        if bar is None and bar_wanted(asked) and (asked or passed > 1):
            from tqdm.auto import tqdm

            layout = "{l_bar}{bar}| {n:.1f} of at most {total:.1f} s"
            bar = tqdm(total=total, bar_format=layout, leave=False)
        if bar is not None:
            bar.update(min(total, passed) - bar.n)

    try:
        yield show
    finally:
        if bar is not None:
            # tqdm leaves a red bar in a notebook where it sees less than the total.
            bar.total = bar.n
            bar.close()
