"""Wrong answers to the exercises of notebook 05: each must be found out, with a reason."""

WRONG = {
    "intensity": [
        # a multiplication without its addition
        "def intensity(m, k, n, size):\n    return m * k * n / (size * (m * k + k * n + m * n))",
        # the result is not written
        "def intensity(m, k, n, size):\n    return 2 * m * k * n / (size * (m * k + k * n))",
        # numbers instead of bytes
        "def intensity(m, k, n, size):\n    return 2 * m * k * n / (m * k + k * n + m * n)",
    ],
    "roofline_time": [
        # the sum instead of the maximum
        "def roofline_time(flops, size, rate, bandwidth, overhead):\n"
        "    times = {'overhead': overhead, 'memory': size / bandwidth, 'compute': flops / rate}\n"
        "    return sum(times.values()), max(times, key=times.get)",
        # no overhead
        "def roofline_time(flops, size, rate, bandwidth, overhead):\n"
        "    times = {'memory': size / bandwidth, 'compute': flops / rate}\n"
        "    return max(times.values()), max(times, key=times.get)",
        # the regime from the intensity alone
        "def roofline_time(flops, size, rate, bandwidth, overhead):\n"
        "    times = {'overhead': overhead, 'memory': size / bandwidth, 'compute': flops / rate}\n"
        "    regime = 'compute' if flops / size > rate / bandwidth else 'memory'\n"
        "    return max(times.values()), regime",
    ],
    "lines_touched": [
        # one line for each number
        "def lines_touched(count, stride, size):\n    return count",
        # as many lines as the bytes of the numbers fill
        "def lines_touched(count, stride, size):\n    return -(-count * size // 64)",
        # all lines in between
        "def lines_touched(count, stride, size):\n    return (count - 1) * stride * size // 64 + 1",
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
    ],
    "most_terms": [
        # the largest factor is 127, but -128 times -128 is larger than 127 times 127
        "def most_terms(bits, accumulator):\n"
        "    largest = 2 ** (bits - 1) - 1\n"
        "    return (2 ** (accumulator - 1) - 1) // largest**2",
        # unsigned accumulator
        "def most_terms(bits, accumulator):\n    return (2**accumulator - 1) // 4 ** (bits - 1)",
        # one too many where it divides
        "def most_terms(bits, accumulator):\n    return 2 ** (accumulator - 1) // 4 ** (bits - 1)",
    ],
    "decode_batch": [
        # one FLOP for each weight
        "def decode_batch(rate, bandwidth, size):\n    return math.ceil(size * rate / bandwidth)",
        # bytes forgotten
        "def decode_batch(rate, bandwidth, size):\n    return math.ceil(rate / bandwidth)",
        # rounded down
        "def decode_batch(rate, bandwidth, size):\n    return int(size * rate / (2 * bandwidth))",
    ],
}

ALSO_RIGHT = {
    "lines_touched": [
        "def lines_touched(count, stride, size):\n"
        "    step = stride * size\n"
        "    return count if step >= 64 else (count - 1) * step // 64 + 1"
    ],
}
