"""Wrong answers to the exercises of notebook 05b: each must be found out, with a reason."""

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
