"""The book's `plot` and `set_figsize`, compared with the book's library where it is installed."""

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt

from d2lperf import book
from d2lperf.plotting import COLOURS, plot, set_figsize

X = np.arange(0.0, 3.0, 0.5)
CALLS = {
    "values alone": ((X,), {}),
    "values in a list": (([1.0, 2.0, 4.0],), {}),
    "one line": ((X, X**2), {"xlabel": "x", "ylabel": "y"}),
    "two lines over one x": ((X, [X**2, 2 * X]), {"legend": ["a", "b"], "xlim": [0, 2]}),
    "two lines, each with its x": (([X, X + 1], [X**2, 2 * X]), {"ylim": (0, 5)}),
    "several values alone": (([X, 2 * X],), {}),
    "tensors": ((torch.arange(4), torch.arange(4.0) ** 2), {"xscale": "log", "yscale": "log"}),
    "two rows of a tensor": ((torch.arange(3), [torch.ones(3), torch.zeros(3)]), {}),
    "four formats": ((X, [X, X + 1, X + 2, X + 3]), {"fmts": ("r-", "b--", "k-.", "g:")}),
    "by position": ((X, X, "x", "y", ["line"], (0, 1), (0.1, 2), "linear", "log", ("-",)), {}),
}


@pytest.fixture
def quiet_book(monkeypatch):
    """The book's library, kept from making a shell of IPython's and from changing settings."""
    if not book.installed():
        pytest.skip("the book's library is not installed")
    module = book.load()
    monkeypatch.setattr(module, "set_figsize", lambda figsize: None)
    return module


@pytest.mark.parametrize("name", CALLS)
def test_plot_draws_the_same_lines_as_the_books(name, quiet_book):
    args, options = CALLS[name]
    mine, theirs = (plt.subplots()[1] for _ in range(2))
    assert plot(*args, **options, axes=mine) is mine
    quiet_book.plot(*args, **options, axes=theirs)
    assert len(mine.lines) == len(theirs.lines)
    for a, b in zip(mine.lines, theirs.lines):
        np.testing.assert_array_equal(a.get_xydata(), b.get_xydata())
        assert a.get_linestyle() == b.get_linestyle()
        if "fmts" in options and len(options["fmts"][0]) > 1:
            assert a.get_color() == b.get_color()
    for what in ("xlabel", "ylabel", "xlim", "ylim", "xscale", "yscale"):
        assert getattr(mine, f"get_{what}")() == getattr(theirs, f"get_{what}")(), what
    legends = [ax.get_legend() for ax in (mine, theirs)]
    assert [a and [t.get_text() for t in a.get_texts()] for a in legends[:1]] == [
        b and [t.get_text() for t in b.get_texts()] for b in legends[1:]
    ]


def test_plot_takes_what_the_books_cannot():
    weights = torch.arange(3.0, requires_grad=True)
    ax = plot(weights, [weights.to(torch.bfloat16) + i for i in range(6)])
    assert len(ax.lines) == 6  # the book's drops the fifth and sixth
    assert ax.lines[5].get_ydata().tolist() == [5, 6, 7]
    assert len({line.get_color() for line in ax.lines}) == 6
    assert plot([torch.tensor(1.0), torch.tensor(3.0)]).lines[0].get_ydata().tolist() == [1, 3]


def test_plot_makes_a_figure_of_the_size_or_takes_the_current_axes():
    ax = plot(X, figsize=(5, 4))
    assert ax.figure.get_size_inches().tolist() == [5, 4]
    again = plot(X + 1)
    assert again is ax and len(ax.lines) == 1  # what was there is gone
    assert ax.lines[0].get_color() == COLOURS["blue"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (([X, X], [X, X, X]), "argument 2 is longer"),
        ((X, [X, X[:2]]), "same first dimension"),
    ],
)
def test_plot_says_what_does_not_match(args, words):
    with pytest.raises(ValueError, match=words):
        plot(*args)


def test_set_figsize():
    with matplotlib.rc_context():
        set_figsize((6, 1))
        assert plt.figure().get_size_inches().tolist() == [6, 1]
        set_figsize()
        assert plt.figure().get_size_inches().tolist() == [3.5, 2.5]
