"""Wrong answers to the exercises of notebook 05: each must be found out, with a reason."""

WRONG = {
    "lines_touched": [
        # one line for each number
        "def lines_touched(count, stride, size):\n    return count",
        # as many lines as the bytes of the numbers fill
        "def lines_touched(count, stride, size):\n    return -(-count * size // 64)",
        # all lines in between
        "def lines_touched(count, stride, size):\n    return (count - 1) * stride * size // 64 + 1",
        # a number for each line from half a line on
        """\
def lines_touched(count, stride, size):
    step = stride * size
    return count if step > 32 else (count - 1) * step // 64 + 1
""",
    ],
    "cache_steps": [
        # every fall, also of one edge
        "def cache_steps(sizes, bandwidths):\n"
        "    pairs = zip(bandwidths, bandwidths[1:])\n"
        "    return [s for s, (a, b) in zip(sizes, pairs) if b < 0.7 * a]",
        # the first size after the fall
        "def cache_steps(sizes, bandwidths):\n"
        "    pairs = zip(bandwidths, bandwidths[1:])\n"
        "    return [s for s, (a, b) in zip(sizes[1:], pairs) if b < 0.7 * a]",
        # any fall at all
        "def cache_steps(sizes, bandwidths):\n"
        "    pairs = zip(bandwidths, bandwidths[1:])\n"
        "    return [s for s, (a, b) in zip(sizes, pairs) if b < a]",
        # a fall of 23 % is none
        """\
def cache_steps(sizes, bandwidths):
    steps, falling = [], False
    for size, now, then in zip(sizes, bandwidths, bandwidths[1:]):
        fall = then < 0.77 * now
        if fall and not falling:
            steps.append(size)
        falling = fall
    return steps
""",
    ],
    "blocks_time": [
        # every pass from the cache
        """\
def blocks_time(size, block, passes, memory, cache, overhead):
    calls = passes * math.ceil(size / block)
    return passes * size / cache + calls * overhead
""",
        # one call for each block
        """\
def blocks_time(size, block, passes, memory, cache, overhead):
    calls = math.ceil(size / block)
    return size / memory + (passes - 1) * size / cache + calls * overhead
""",
        # what is written counts, too
        """\
def blocks_time(size, block, passes, memory, cache, overhead):
    calls = passes * math.ceil(size / block)
    return 2 * size / memory + (passes - 1) * 2 * size / cache + calls * overhead
""",
        # the last block forgotten
        """\
def blocks_time(size, block, passes, memory, cache, overhead):
    calls = passes * (size // block)
    return size / memory + (passes - 1) * size / cache + calls * overhead
""",
    ],
}

ALSO_RIGHT = {
    "lines_touched": [
        "def lines_touched(count, stride, size):\n"
        "    step = stride * size\n"
        "    return count if step >= 64 else (count - 1) * step // 64 + 1",
        # counted with NumPy
        """\
import numpy as np


def lines_touched(count, stride, size):
    return np.unique(np.arange(count) * stride * size // 64).size
""",
    ],
    "cache_steps": [
        # an array
        """\
import numpy as np


def cache_steps(sizes, bandwidths):
    bandwidths = np.array(bandwidths)
    falls = bandwidths[1:] < 0.7 * bandwidths[:-1]
    first = falls & ~np.concatenate([[False], falls[:-1]])
    return np.array(sizes)[:-1][first]
""",
        """\
def cache_steps(sizes, bandwidths):
    falls = [b / a < 0.7 for a, b in zip(bandwidths, bandwidths[1:])]
    return tuple(s for i, s in enumerate(sizes[:-1])
                 if falls[i] and (i == 0 or not falls[i - 1]))
""",
    ],
    "blocks_time": [
        # block after block
        """\
def blocks_time(size, block, passes, memory, cache, overhead):
    total = 0.0
    for begin in range(0, size, block):
        moved = min(block, size - begin)
        total += moved / memory + (passes - 1) * moved / cache + passes * overhead
    return total
""",
        # whole numbers, and an array of one number
        """\
import numpy as np


def blocks_time(size, block, passes, memory, cache, overhead):
    parts = [1 / memory, (passes - 1) / cache]
    return np.array([size * sum(parts) - passes * (-size // block) * overhead])
""",
    ],
}
