"""One colour for each name in the whole collection.

The colours are those of M. Okabe and K. Ito, *Color Universal Design*, 2008, which readers with
any of the usual colour deficiencies can tell apart. Their yellow is too faint on white.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable

COLOURS = {
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "black": "#000000",
}
"""Okabe and Ito's colours by name, in the order in which ranks and devices take them."""

INK = "#333333"  # text
SOFT = "#767676"  # axes, secondary text
GREY = "#A6A6A6"  # what has no colour of its own; not decided
FAINT = "#E6E6E6"  # grid, bands

_WORDS = {
    "blue": "eager backward compute computation arithmetic measured gradients",
    "vermillion": "compiled slower update optimizer overhead",
    "green": "scripted faster load copy prefetch",
    "purple": "traced parameters memory pull fetch",
    "orange": "exported communication all-reduce all-gather reduce-scatter broadcast gather send "
    "receive push",
    "sky": "forward activations numpy batch",
    "black": "predicted python call",
}
_KNOWN = {word: COLOURS[colour] for colour, words in _WORDS.items() for word in words.split()}
_KNOWN |= dict.fromkeys(("wait", "idle", "other", "baseline", "not decided", "ideal"), GREY)
_COUNTED = re.compile(r"(rank|device|worker|stage|gpu|stream|server|cuda|thread)[ :]?(\d+)")


def colour_of(name: str) -> str:
    """Return the colour of a name, the same in every figure and on every machine.

    Known words ("eager", "forward", "all-reduce") have fixed colours. Counted things ("rank 1",
    "cuda:1") take the palette in order. Another name gets a colour from its letters; a number
    at its end makes no difference ("load 0" and "load 1").

    Args:
        name: such as "eager"; capitals make no difference.

    Returns:
        A colour such as "#0072B2".

    >>> colour_of("eager"), colour_of("rank 1") == colour_of("GPU 1")
    ('#0072B2', True)
    """
    return _fixed(name) or _lettered(name)


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each name of one figure, different as long as there are enough.

    Args:
        names: fixed colours go first. A name without one gives way if its colour is taken.

    Returns:
        Colours by name, in the order of `names`.
    """
    names = list(dict.fromkeys(map(str, names)))
    chosen = {name: colour for name in names if (colour := _fixed(name))}
    palette = list(COLOURS.values())
    for name in (name for name in names if name not in chosen):
        first = palette.index(_lettered(name))
        ring = [palette[(first + i) % len(palette)] for i in range(len(palette))]
        free = [colour for colour in ring if colour not in chosen.values()]
        chosen[name] = free[0] if free else ring[0]
    return {name: chosen[name] for name in names}


def _base(name: str) -> str:
    """The name in lower case without a number at its end."""
    lower = str(name).strip().lower()
    return re.sub(r"[\s_#-]*\d+$", "", lower) or lower


def _fixed(name: str) -> str | None:
    counted = _COUNTED.fullmatch(str(name).strip().lower())
    if counted:
        return list(COLOURS.values())[int(counted[2]) % len(COLOURS)]
    return _KNOWN.get(_base(name))


def _lettered(name: str) -> str:
    return list(COLOURS.values())[zlib.crc32(_base(name).encode()) % len(COLOURS)]
