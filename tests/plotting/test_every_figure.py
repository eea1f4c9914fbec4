"""What holds for every function that draws."""

import numpy as np
import pytest
from fresh import run_fresh
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt

from d2lperf import plotting

# Each draws two things with given names.
DRAW = {
    "bars": lambda a, b, **o: plotting.bars({a: 1.0, b: 2.0}, **o),
    "distributions": lambda a, b, **o: plotting.distributions({a: [1e-3] * 9, b: [2e-3]}, **o),
    "gantt": lambda a, b, **o: plotting.gantt([(a, 0, 1, a, 0), (b, 0, 1e-3, b, 0)], **o),
    "graph": lambda a, b, **o: plotting.graph([a, b], [(a, b)], **o),
    "intervals": lambda a, b, **o: plotting.intervals({a: (1, 1, 1), b: (2, 1, 3)}, **o),
    "lines": lambda a, b, **o: plotting.lines([1, 2], {a: [1, 2], b: [2, 1]}, xlabel=a, **o),
    "waterfall": lambda a, b, **o: plotting.waterfall([a, b], [2, 1], ylabel=a, **o),
    "plot": lambda a, b, ax=None: plotting.plot([1, 2], legend=[a], xlabel=b, axes=ax),
}


@pytest.fixture(params=DRAW)
def draw(request):
    return DRAW[request.param]


def texts(ax):
    """All texts of a drawn figure."""
    in_legend = ax.get_legend().get_texts() if ax.get_legend() else []
    return [*ax.texts, *ax.get_yticklabels(), ax.xaxis.label, ax.yaxis.label, *in_legend]


def test_importing_the_package_imports_no_matplotlib():
    code = "import sys, d2lperf.plotting; print({'matplotlib', 'networkx'} & set(sys.modules))"
    assert run_fresh(code).stdout == "set()\n"


def test_draws_into_the_axes_it_is_given_and_returns_them(draw):
    _, (left, right) = plt.subplots(1, 2)
    assert draw("a", "b", ax=right) is right
    assert not left.has_data()
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize("wrong", ["times.png", np.empty(2)])
def test_a_wrong_ax_is_refused_with_advice(draw, wrong):
    with pytest.raises(TypeError, match=r"plt\.subplots\(\)[^$]*savefig"):
        draw("a", "b", ax=wrong)


@pytest.mark.parametrize("name", [r"$\frac{$", "$a_b$", "_private"])
def test_names_are_shown_as_they_are(draw, name):
    """A name with "$" once crashed the drawing."""
    ax = draw(name, "b")
    ax.figure.canvas.draw()
    assert name in " ".join(t.get_text() for t in texts(ax)).replace("\n", " ")
    assert not any(t.get_parse_math() for t in texts(ax) if name in t.get_text())


NAMES = st.text(st.sampled_from("a$_^{}\\% <&é🙂"), min_size=1, max_size=12)


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("kind", ["bars", "gantt", "graph", "lines"])
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(names=st.lists(NAMES, min_size=2, max_size=2, unique_by=str.strip))
def test_no_name_crashes_a_drawing(kind, names):
    DRAW[kind](*names).figure.canvas.draw()
    plt.close("all")
