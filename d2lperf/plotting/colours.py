"""One colour for each name in the whole collection.

The palette is M. Okabe and K. Ito's (*Color Universal Design*, 2008), which readers with any of
the usual colour deficiencies can tell apart, without its yellow, which is too faint on white.
"""

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
"""The palette, in the order in which ranks and devices take it."""

INK, SOFT = "#333333", "#767676"  # text; axes and secondary text
GREY, FAINT = "#A6A6A6", "#E6E6E6"  # not decided, not named; grid and bands

_PALETTE = list(COLOURS.values())
_WORDS = {
    "blue": "eager backward compute computation arithmetic measured gradients",
    "vermillion": "compiled slower update optimizer overhead",
    "green": "scripted faster load copy prefetch",
    "purple": "traced parameters memory pull fetch",
    "orange": "exported communication all-reduce all-gather reduce-scatter broadcast gather push",
    "sky": "forward activations numpy batch",
    "black": "predicted python call",
}
_KNOWN = {word: COLOURS[colour] for colour, words in _WORDS.items() for word in words.split()}
_KNOWN |= dict.fromkeys(("wait", "idle", "other", "baseline", "not decided", "ideal"), GREY)
_COUNTED = re.compile(r"(?:rank|device|worker|stage|gpu|stream|server|cuda|thread)[ :]?(\d+)")


def colour_of(name: str) -> str:
    """Return the colour of a name, the same in every figure and on every machine.

    Known words ("eager", "all-reduce") have fixed colours; counted things ("rank 1", "cuda:1")
    take the palette in order. Another name gets a colour from its letters; a number at its end
    makes no difference ("load 0", "load 1"), nor do capitals.

    >>> colour_of("eager"), colour_of("rank 1") == colour_of("GPU 1")
    ('#0072B2', True)
    """
    return _fixed(name) or _PALETTE[_lettered(name)]


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each name of one figure, different as long as there are enough.

    Names with fixed colours have them; another one gives way where its colour is taken.
    """
    names = list(dict.fromkeys(map(str, names)))
    chosen = {name: colour for name in names if (colour := _fixed(name))}
    for name in names:
        first = _lettered(name)
        ring = _PALETTE[first:] + _PALETTE[:first]
        free = [colour for colour in ring if colour not in chosen.values()]
        chosen.setdefault(name, (free or ring)[0])
    return {name: chosen[name] for name in names}


def kind_of(name: str) -> str:
    """Return what the colour goes by: the name without a number at its end ("load 0": "load").

    Counted things ("rank 1") keep their number.
    """
    name = str(name).strip()
    return name if _COUNTED.fullmatch(name.lower()) else re.sub(r"[\s_#-]*\d+$", "", name) or name


def _fixed(name: str) -> str | None:
    kind = kind_of(name).lower()
    counted = _COUNTED.fullmatch(kind)
    return _PALETTE[int(counted[1]) % len(_PALETTE)] if counted else _KNOWN.get(kind)


def _lettered(name: str) -> int:
    return zlib.crc32(kind_of(name).lower().encode("utf-8", "replace")) % len(_PALETTE)
