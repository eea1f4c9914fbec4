"""One colour for each name in the whole collection.

Source of the palette: M. Okabe and K. Ito, *Color Universal Design*, 2008 (without its yellow).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping

# In the order in which ranks and devices take them, with the words that have them.
_TABLE = {
    "blue": ("#0072B2", "eager backward compute computation arithmetic measured gradients step"),
    "vermillion": ("#D55E00", "compiled slower update optimizer overhead"),
    "green": ("#009E73", "scripted faster load copy prefetch prepare"),
    "purple": ("#CC79A7", "traced parameters memory pull fetch item"),
    "orange": ("#E69F00", "exported communication all-reduce all-gather reduce-scatter broadcast"),
    "sky": ("#56B4E9", "forward activations numpy batch"),
    "black": ("#000000", "predicted python call issue"),
}
COLOURS = {name: colour for name, (colour, _) in _TABLE.items()}
SOFT, GREY, FAINT = "#767676", "#A6A6A6", "#E6E6E6"  # axes; not decided, not named; grid, bands

_PALETTE = list(COLOURS.values())
_KNOWN = {word: colour for colour, words in _TABLE.values() for word in words.split()}
_KNOWN |= dict.fromkeys(("wait", "idle", "other", "baseline", "not decided", "ideal"), GREY)
_KNOWN |= dict.fromkeys(("gather", "push"), COLOURS["orange"])
_COUNTED = re.compile(r"(?:rank|device|worker|stage|gpu|stream|server|cuda|thread)[ :]?(\d+)")
_chosen: dict[str, str] = {}  # what other names got in this session


def colour_of(name: str) -> str:
    """Return the colour of a name, whatever its capitals.

    Known words ("eager", "all-reduce") have fixed colours; counted things ("rank 1", "cuda:1")
    take the palette in order. Another name gets a colour from its letters and keeps it.

    >>> colour_of("eager"), colour_of("rank 1") == colour_of("GPU 1")
    ('#0072B2', True)
    """
    return colours_of([name])[str(name)]


def colours_of(names: Iterable[str], palette: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a colour for each name of one figure; they differ as long as there are enough.

    Args:
        names: the names.
        palette: colours of some of them by name: a name of `COLOURS`, or any colour of matplotlib.
            What it chooses holds for this figure and does not depend on earlier ones.
    """
    keys = {str(name): _key(name) for name in names}
    given = {_key(name): COLOURS.get(c, c) for name, c in (palette or {}).items()}
    known = {key: given.get(key) or _fixed(key) for key in keys.values()}
    found = {key: colour for key, colour in known.items() if colour is not None}
    unknown = [key for key in known if key not in found]
    # Names that had a colour before choose first, so that they keep it.
    for key in sorted(unknown, key=lambda key: key not in _chosen):
        first = zlib.crc32(key.encode("utf-8", "replace")) % len(_PALETTE)
        wishes = [_chosen.get(key, _PALETTE[first]), *_PALETTE[first:], *_PALETTE[:first]]
        free = [colour for colour in wishes if colour not in found.values()]
        found[key] = free[0] if free else wishes[0]
        if free:
            _chosen.setdefault(key, found[key])
    return {name: found[key] for name, key in keys.items()}


def _key(name: object) -> str:
    return str(name).strip().lower()


def _fixed(key: str) -> str | None:
    """The colour of a known word or of a counted thing; None for another name."""
    counted = _COUNTED.fullmatch(key)
    if counted:
        return _PALETTE[int(counted[1]) % len(_PALETTE)]
    return _KNOWN.get(key)
