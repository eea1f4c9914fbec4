"""One colour for a name everywhere; different colours for the names of a figure."""

from itertools import combinations, count

import numpy as np
import pytest
from drawn import boxes
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from d2lperf import plotting
from d2lperf.plotting import COLOURS, colour_of
from d2lperf.plotting.colours import colours_of


@pytest.mark.parametrize(
    ("name", "colour"),
    [
        ("eager", "blue"),
        ("Compiled", "vermillion"),
        ("forward", "sky"),
        ("all-reduce", "orange"),
        ("rank 0", "blue"),
        ("rank 2", "green"),
        ("cuda:1", "vermillion"),
        ("device 7", "blue"),
    ],
)
def test_known_names_have_fixed_colours(name, colour):
    assert colour_of(name) == COLOURS[colour]


def test_communication_does_not_look_like_compute_nor_forward_like_backward():
    assert colour_of("communication") != colour_of("compute")
    assert colour_of("forward") != colour_of("backward")
    assert colour_of("faster") != colour_of("slower")


@given(st.text())
def test_a_name_has_one_colour(name):
    assert colour_of(name) in {*COLOURS.values(), "#A6A6A6"}
    assert colour_of(name) == colours_of([name])[name] == colour_of(f" {name.lower()} ")


new = count()


@given(st.integers(1, len(COLOURS)), st.integers(0, 5))
def test_new_names_of_a_figure_differ_and_keep_their_colours_in_the_next(number, dropped):
    """C: a name changed its colour with the depth that was drawn, which adds and removes names."""
    names = ["eager", *(f"name {next(new)} of a thing" for _ in range(number - 1))]
    found = colours_of(names)
    assert list(found) == names and found["eager"] == COLOURS["blue"]
    assert len(set(found.values())) == number
    others = [f"other {next(new)} of a thing" for _ in range(3)]
    again = colours_of([*others, *names[dropped:]])
    assert all(again[name] == found[name] for name in names[dropped:])


def test_names_of_one_figure_differ_even_if_they_had_one_colour_in_two_others():
    names = [f"alone {next(new)} of a thing" for _ in range(8)]
    alone = {name: colour_of(name) for name in names}
    a, b = next((a, b) for a, b in combinations(names, 2) if alone[a] == alone[b])
    assert len(set(colours_of([a, b]).values())) == 2
    assert colour_of(b) == alone[b]


def test_a_palette_chooses_for_one_figure_and_leaves_no_trace():
    name = f"name {next(new)} of a thing"
    before = colour_of(name)
    found = colours_of([name, "eager", "b"], {name.upper(): "#123456", "eager": "green"})
    assert (found[name], found["eager"]) == ("#123456", COLOURS["green"])
    assert found["b"] != COLOURS["green"]
    assert colour_of(name) == before and colour_of("eager") == COLOURS["blue"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda palette: plotting.bars({"eager": 1.0}, palette=palette).patches[0].get_facecolor(),
        lambda palette: plotting.lines([1], {"eager": [1]}, palette=palette).lines[0].get_color(),
        lambda palette: (
            plotting.distributions({"eager": [1.0]}, palette=palette)
            .collections[0]
            .get_facecolor()[0]
        ),
        lambda palette: boxes(plotting.gantt([("eager", 0, 1, "a", 0)], palette=palette))[0][4],
    ],
)
def test_figures_take_a_palette(draw):
    assert to_rgb(draw({"eager": "green"})) == to_rgb(COLOURS["green"])


def test_curves_that_differ_in_a_number_differ_in_colour():
    assert len(set(colours_of(["batch 32", "batch 64", "batch 128"]).values())) == 3


def test_more_names_than_colours_share_them():
    found = colours_of(f"operation {'x' * i}" for i in range(20))
    assert len(found) == 20 and set(found.values()) == set(COLOURS.values())


def test_colours_differ_in_lightness_or_hue():
    rgb = {name: np.array(to_rgb(colour)) for name, colour in COLOURS.items()}
    for a, b in combinations(rgb, 2):
        assert np.abs(rgb[a] - rgb[b]).sum() > 0.3, (a, b)
