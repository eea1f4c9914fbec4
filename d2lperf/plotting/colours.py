"""One colour for each name in the whole collection.

The palette is M. Okabe and K. Ito's (*Color Universal Design*, 2008), which readers with any of
the usual colour deficiencies can tell apart, without its yellow, which is too faint on white.
"""

import re
import zlib
from collections import Counter
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
_chosen: dict[str, str] = {}  # what other names got in this session


def colour_of(name: str) -> str:
    """Return the colour of a name.

    Known words ("eager", "all-reduce") have fixed colours; counted things ("rank 1", "cuda:1")
    take the palette in order. Another name gets a colour from its letters and keeps it. A number
    at its end makes no difference ("load 0", "load 1"), nor do capitals.

    >>> colour_of("eager"), colour_of("rank 1") == colour_of("GPU 1")
    ('#0072B2', True)
    """
    return colours_of([name])[str(name)]


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each name of one figure, in the order of the names.

    They differ as long as there are enough: a name gives way where its colour is taken, and names
    that only differ in a number ("batch 32", "batch 64") count as different.
    """
    kinds = {str(name): kind_of(name).lower() for name in names}
    often = Counter(kinds.values())
    kinds = {name: kind if often[kind] == 1 else name for name, kind in kinds.items()}
    found = {kind: _fixed(kind) for kind in kinds.values()}
    for kind in sorted((kind for kind in found if not found[kind]), key=lambda k: k not in _chosen):
        first = zlib.crc32(kind.encode("utf-8", "replace")) % len(_PALETTE)
        wishes = [*filter(None, [_chosen.get(kind)]), *_PALETTE[first:], *_PALETTE[:first]]
        free = [colour for colour in wishes if colour not in found.values()]
        found[kind] = (free or wishes)[0]
        if free:
            _chosen.setdefault(kind, found[kind])
    return {name: found[kind] for name, kind in kinds.items()}


def kind_of(name: str) -> str:
    """Return what the colour goes by: the name without a number at its end ("load 0": "load").

    Counted things ("rank 1") keep their number.
    """
    name = str(name).strip()
    return name if _COUNTED.fullmatch(name.lower()) else re.sub(r"[\s_#-]*\d+$", "", name) or name


def _fixed(kind: str) -> str | None:
    counted = _COUNTED.fullmatch(kind)
    return _PALETTE[int(counted[1]) % len(_PALETTE)] if counted else _KNOWN.get(kind)
