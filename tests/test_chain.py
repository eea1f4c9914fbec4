"""The chain of loads that notebook 05c follows: it leads through all lines, with any pages."""

import mmap

import numpy as np
import pytest
from shown import shown

CODE = shown("05c-latency-and-cores", "memory", "make_chain")


@pytest.mark.parametrize("large_pages", [False, True])
@pytest.mark.parametrize("system", ["this one", "without large pages"])
def test_a_chain_visits_each_line_of_its_order_once(monkeypatch, system, large_pages):
    if system == "without large pages":
        monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    order = np.random.default_rng(0).permutation(np.arange(0, 1000, 2))

    numbers = memoryview(CODE.make_chain(order, large_pages)).cast("i")

    place, visited = 16 * int(order[0]), []
    for _ in order:
        visited.append(place)
        place = numbers[place]
    assert visited == [16 * int(line) for line in order]
    assert place == visited[0]
