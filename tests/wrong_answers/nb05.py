"""Wrong answers to the exercises of notebook 05: each must be found out, with a reason."""

WRONG = {
    "roofline_time": [
        # the sum instead of the maximum
        "def roofline_time(flops, size, rate, bandwidth, overhead):\n"
        "    times = {'overhead': overhead, 'memory': size / bandwidth, 'compute': flops / rate}\n"
        "    return sum(times.values()), max(times, key=times.get)",
        # the longest of three, as on a GPU
        "def roofline_time(flops, size, rate, bandwidth, overhead):\n"
        "    times = {'overhead': overhead, 'memory': size / bandwidth, 'compute': flops / rate}\n"
        "    return max(times.values()), max(times, key=times.get)",
        # no overhead
        "def roofline_time(flops, size, rate, bandwidth, overhead):\n"
        "    times = {'memory': size / bandwidth, 'compute': flops / rate}\n"
        "    return max(times.values()), max(times, key=times.get)",
        # the regime from the intensity alone
        "def roofline_time(flops, size, rate, bandwidth, overhead):\n"
        "    regime = 'compute' if flops / size > rate / bandwidth else 'memory'\n"
        "    return overhead + max(size / bandwidth, flops / rate), regime",
        # the other way round
        """\
def roofline_time(flops, size, rate, bandwidth, overhead):
    times = {"overhead": overhead, "memory": size / bandwidth, "compute": flops / rate}
    return max(times, key=times.get), overhead + max(size / bandwidth, flops / rate)
""",
    ],
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
    return passes * 2 * size / cache + calls * overhead
""",
        # one call for each block
        """\
def blocks_time(size, block, passes, memory, cache, overhead):
    moved = 2 * size
    calls = math.ceil(size / block)
    return moved / memory + (passes - 1) * moved / cache + calls * overhead
""",
        # what is written does not count
        """\
def blocks_time(size, block, passes, memory, cache, overhead):
    calls = passes * math.ceil(size / block)
    return size / memory + (passes - 1) * size / cache + calls * overhead
""",
        # the last block forgotten
        """\
def blocks_time(size, block, passes, memory, cache, overhead):
    calls = passes * (size // block)
    return 2 * size / memory + (passes - 1) * 2 * size / cache + calls * overhead
""",
    ],
    "decode_batch": [
        # one FLOP for each weight
        "def decode_batch(rate, bandwidth, size):\n    return math.ceil(size * rate / bandwidth)",
        # bytes forgotten
        "def decode_batch(rate, bandwidth, size):\n    return math.ceil(rate / bandwidth)",
        # rounded down
        "def decode_batch(rate, bandwidth, size):\n    return int(size * rate / (2 * bandwidth))",
        # always one more
        """\
def decode_batch(rate, bandwidth, size):
    return int(size * rate / (2 * bandwidth)) + 1
""",
    ],
    "ridge": [
        # the first call counts
        """\
def ridge(product, flops, addition, size, clock):
    def seconds(fn):
        start = clock()
        for _ in range(50):
            fn()
        return (clock() - start) / 50

    return (flops / seconds(product)) / (size / seconds(addition))
""",
        # one call each, which may be interrupted
        """\
def ridge(product, flops, addition, size, clock):
    readings = []
    for fn in (product, addition):
        fn()
        start = clock()
        fn()
        readings.append(clock() - start)
    return (flops / readings[0]) / (size / readings[1])
""",
        # bytes per FLOP
        """\
def ridge(product, flops, addition, size, clock):
    def seconds(fn):
        times = []
        for _ in range(20):
            start = clock()
            fn()
            times.append(clock() - start)
        return min(times)

    return (size / seconds(addition)) / (flops / seconds(product))
""",
        # the intensity of the product is not the ridge of the machine
        """\
def ridge(product, flops, addition, size, clock):
    return flops / size
""",
        # a mean without the first call still holds the interruptions
        """\
def ridge(product, flops, addition, size, clock):
    seconds = []
    for fn, calls in ((product, 15), (addition, 60)):
        fn()
        start = clock()
        for _ in range(calls):
            fn()
        seconds.append((clock() - start) / calls)
    return (flops / seconds[0]) / (size / seconds[1])
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
def lines_touched(count, stride, size):
    return np.unique(np.arange(count) * stride * size // 64).size
""",
    ],
    "ridge": [
        # the median
        """\
def ridge(product, flops, addition, size, clock):
    def seconds(fn):
        times = []
        for _ in range(30):
            start = clock()
            fn()
            times.append(clock() - start)
        return np.median(times[1:])

    return seconds(addition) / size * flops / seconds(product)
""",
        # the best of five loops
        """\
def ridge(product, flops, addition, size, clock):
    import timeit

    best = {}
    for fn in (product, addition):
        fn()
        loops = timeit.repeat(fn, number=20, repeat=5, timer=clock)
        best[fn] = min(loops) / 20
    return np.array(flops / best[product]) / (size / best[addition])
""",
    ],
    "roofline_time": [
        # a list
        """\
def roofline_time(flops, size, rate, bandwidth, overhead):
    times = [overhead, size / bandwidth, flops / rate]
    longest = ["overhead", "memory", "compute"][int(np.argmax(times))]
    return [np.float64(overhead + max(times[1:])), longest]
""",
        # pairs have an order
        """\
def roofline_time(flops, size, rate, bandwidth, overhead):
    seconds, longer = max((flops / rate, "compute"), (size / bandwidth, "memory"))
    return overhead + seconds, max((seconds, longer), (overhead, "overhead"))[1]
""",
    ],
    "cache_steps": [
        # an array
        """\
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
        moved = 2 * min(block, size - begin)
        total += moved / memory + (passes - 1) * moved / cache + passes * overhead
    return total
""",
        # whole numbers, and an array of one number
        """\
def blocks_time(size, block, passes, memory, cache, overhead):
    parts = [1 / memory, (passes - 1) / cache]
    return np.array([2 * size * sum(parts) - passes * (-size // block) * overhead])
""",
    ],
    "decode_batch": [
        # as the hint says
        """\
def decode_batch(rate, bandwidth, size):
    return math.ceil((size / bandwidth) / (2 / rate))
""",
        # a float
        """\
def decode_batch(rate, bandwidth, size):
    return np.ceil(size / 2 * (rate / bandwidth))
""",
    ],
}
