"""The drawings of notebooks/figures: true to what they simulate."""

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks" / "figures"
SCRIPT = runpy.run_path(str(FOLDER / "draw.py"))


@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_ring_all_reduce_sums_everything_in_two_phases(n):
    start, scattered, gathered = SCRIPT["ring_steps"](n)
    assert start == [[1] * n] * n and gathered == [[n] * n] * n
    complete = [[count == n for count in row] for row in scattered]
    assert [sum(row) for row in complete] == [1] * n == [sum(column) for column in zip(*complete)]


@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("batches", [1, 4, 8])
def test_the_bubble_of_the_schedule_is_the_known_fraction(stages, batches):
    spans = SCRIPT["pipeline_schedule"](stages, batches, 0.5)
    end = max(start for *_, start, _ in spans) + 0.5
    assert 1 - len(spans) * 0.5 / (stages * end) == pytest.approx(
        (stages - 1) / (batches + stages - 1)
    )
    rows = [[start for s, _, start, _ in spans if s == stage] for stage in range(stages)]
    assert all(b - a >= 0.5 for row in rows for a, b in zip(sorted(row), sorted(row)[1:]))
