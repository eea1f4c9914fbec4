"""Wrong answers to the exercises of notebook 06: each must be found out, with a reason."""

WRONG = {
    "best_segments": [
        # as many as there are
        "def best_segments(blocks):\n    return blocks",
        # the root, whether or not it divides
        "def best_segments(blocks):\n    return round(math.sqrt(blocks))",
        # of two the larger one
        """\
def best_segments(blocks):
    divisors = [k for k in range(blocks, 0, -1) if blocks % k == 0]
    return min(divisors, key=lambda k: k + blocks // k)
""",
        # one segment
        """\
def best_segments(blocks):
    return 1
""",
    ],
    "micro_batch": [
        # larger than the batch
        """\
def micro_batch(memory, count, each, batch):
    size = (memory - 16 * count) // each
    if size < 1 or 20 * count > memory:
        raise ValueError("nothing fits")
    return size, math.ceil(batch / size)
""",
        # 12 bytes per parameter, also from the second micro-batch on
        """\
def micro_batch(memory, count, each, batch):
    size = min(batch, (memory - 12 * count) // each)
    if size < 1 or 20 * count > memory:
        raise ValueError("nothing fits")
    return size, math.ceil(batch / size)
""",
        # 16 bytes per parameter, also for a single batch
        """\
def micro_batch(memory, count, each, batch):
    size = min(batch, (memory - 16 * count) // each)
    if size < 1 or 20 * count > memory:
        raise ValueError("nothing fits")
    return size, math.ceil(batch / size)
""",
        # 20 bytes per parameter, as if rows were there in the update
        """\
def micro_batch(memory, count, each, batch):
    size = min(batch, (memory - 20 * count) // each)
    if size < 1:
        raise ValueError("nothing fits")
    return size, math.ceil(batch / size)
""",
        # the last micro-batch is dropped
        """\
def micro_batch(memory, count, each, batch):
    if 20 * count > memory:
        raise ValueError("the update does not fit")
    if 12 * count + each * batch <= memory:
        return batch, 1
    size = (memory - 16 * count) // each
    if size < 1:
        raise ValueError("not one row fits")
    return size, batch // size
""",
        # without a word where even the fixed part does not fit: -10 rows, 0 times
        """\
def micro_batch(memory, count, each, batch):
    if 20 * count > memory > 12 * count:
        raise ValueError("the update does not fit")
    if 12 * count + each * batch <= memory:
        return batch, 1
    size = (memory - 16 * count) // each
    return size, math.ceil(batch / size)
""",
        # the update is forgotten
        """\
def micro_batch(memory, count, each, batch):
    if 12 * count + each * batch <= memory:
        return batch, 1
    size = (memory - 16 * count) // each
    if size < 1:
        raise ValueError("not one row fits")
    return size, math.ceil(batch / size)
""",
    ],
    "largest_batch": [
        # peaks of small batches, which are those of the update
        (
            "ZeroDivisionError",
            """\
def largest_batch(peak_of, memory):
    small, large = peak_of(32), peak_of(64)
    each = (large - small) // 32
    return (memory - (small - 32 * each)) // each
""",
        ),
        # all in proportion
        """\
def largest_batch(peak_of, memory):
    if peak_of(1) > memory:
        raise ValueError
    return memory * 4096 // peak_of(4096)
""",
        # the update is forgotten: fewer rows do not make it fit
        """\
def largest_batch(peak_of, memory):
    half, whole = peak_of(2048), peak_of(4096)
    each = (whole - half) // 2048
    rows = 4096 + (memory - whole) // each
    if rows < 1:
        raise ValueError
    return rows
""",
        # tries until nothing is left
        """\
def largest_batch(peak_of, memory):
    rows = 1
    while peak_of(rows + 1) <= memory:
        rows *= 2
    return rows
""",
        # rounded up
        """\
def largest_batch(peak_of, memory):
    if peak_of(1) > memory:
        raise ValueError
    half, whole = peak_of(2048), peak_of(4096)
    each = (whole - half) // 2048
    return 4096 - (whole - memory) // each
""",
        # from one small and one large batch
        """\
def largest_batch(peak_of, memory):
    one, many = peak_of(1), peak_of(4096)
    if one > memory:
        raise ValueError
    return 1 + (memory - one) * 4095 // (many - one)
""",
    ],
}

ALSO_RIGHT = {
    "largest_batch": [
        # from two neighbours
        """\
def largest_batch(peak_of, memory):
    if peak_of(1) > memory:
        raise ValueError("not one row fits")
    each = peak_of(3000) - peak_of(2999)
    fixed = peak_of(3000) - 3000 * each
    return (memory - fixed) // each
""",
        # a fit through several sizes
        """\
def largest_batch(peak_of, memory):
    rows = [2048, 2560, 3072, 4096]
    each, fixed = np.polyfit(rows, [peak_of(n) for n in rows], 1)
    if peak_of(1) > memory:
        raise ValueError(f"{memory} bytes are too few")
    return np.floor((memory - fixed) / each + 1e-6)
""",
    ],
    "best_segments": [
        # from the root downwards
        """\
def best_segments(blocks):
    k = math.isqrt(blocks)
    while blocks % k:
        k -= 1
    return k
""",
        """\
def best_segments(blocks):
    k = np.arange(1, blocks + 1)
    k = k[blocks % k == 0]
    return k[np.argmin(k + blocks // k)]
""",
    ],
    "micro_batch": [
        # a list
        """\
def micro_batch(memory, count, each, batch):
    whole, room = memory - 12 * count, memory - 16 * count
    if memory < 20 * count or (room < each and whole < each * batch):
        raise ValueError("too little")
    size = batch if whole >= each * batch else room // each
    return [size, -(-batch // size)]
""",
        """\
def micro_batch(memory, count, each, batch):
    def fits(rows):
        held = 12 if rows == batch else 16
        return max(20 * count, held * count + rows * each) <= memory

    sizes = [n for n in range(1, batch + 1) if fits(n)]
    if not sizes:
        raise ValueError("not one row fits")
    return np.array([sizes[-1], len(range(0, batch, sizes[-1]))])
""",
    ],
}
