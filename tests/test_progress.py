"""When a progress bar is shown."""

import pytest

from d2lperf.progress import bar_wanted, progress_bar


@pytest.mark.parametrize("value", ["", "0"])
def test_a_bar_comes_after_a_second_or_when_asked_for(monkeypatch, bars, value):
    monkeypatch.setenv("TQDM_DISABLE", value)
    for asked in (None, True, False):
        with progress_bar(3.0, asked) as show:
            show(0.5)
            early = len(bars)
            show(2.0)
            show(9.0)
        assert (early, len(bars)) == {None: (0, 1), True: (2, 2), False: (2, 2)}[asked]
    assert all(bar.n == bar.total == 3.0 and bar.closed for bar in bars)


def test_a_bar_that_ends_early_is_at_its_end(monkeypatch, bars):
    """tqdm would take it for a failure."""
    monkeypatch.setenv("TQDM_DISABLE", "")
    with progress_bar(3.0, True) as show:
        show(2.0)
    assert bars[0].n == bars[0].total == 2.0


def test_the_environment_has_the_last_word(monkeypatch, bars):
    monkeypatch.setenv("TQDM_DISABLE", "1")
    assert not bar_wanted(True)
    with progress_bar(3.0, True) as show:
        show(2.0)
    assert not bars
