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
    "loss_scale": [
        # the largest gradient by value: negative ones overflow
        "def loss_scale(gradients):\n"
        "    largest = max(gradients.max().item(), 1e-12)\n"
        "    return 2.0 ** math.floor(math.log2(65504 / largest))",
        # no power of two
        "def loss_scale(gradients):\n    return 65504 / gradients.abs().max().item()",
        # rounded up
        "def loss_scale(gradients):\n"
        "    return 2.0 ** math.ceil(math.log2(65504 / gradients.abs().max().item()))",
        # a constant
        "def loss_scale(gradients):\n    return 65536.0",
        # a norm instead of the largest magnitude
        """\
def loss_scale(gradients):
    norm = gradients.norm().item()
    return 2.0 ** math.floor(math.log2(65504 / norm)) if norm else 1.0
""",
        # zeros
        (
            "ZeroDivisionError",
            """\
def loss_scale(gradients):
    return 2.0 ** math.floor(math.log2(65504 / gradients.abs().max().item()))
""",
        ),
    ],
    "to_bfloat16": [
        # cut off
        "def to_bfloat16(x):\n"
        "    bits = x.view(torch.int32)\n"
        "    return (bits & ~0xFFFF).view(torch.float32)",
        # ties always up
        "def to_bfloat16(x):\n"
        "    bits = x.view(torch.int32) + 0x8000\n"
        "    return (bits & ~0xFFFF).view(torch.float32)",
        # overwrites x
        """\
def to_bfloat16(x):
    bits = x.view(torch.int32)
    bits += 0x7FFF + ((bits >> 16) & 1)
    bits &= ~0xFFFF
    return x
""",
        # another dtype
        """\
def to_bfloat16(x):
    return x.bfloat16()
""",
    ],
    "micro_batch": [
        # larger than the batch
        "def micro_batch(memory, fixed, each, batch):\n"
        "    size = (memory - fixed) // each\n"
        "    if size < 1:\n"
        "        raise ValueError('nothing fits')\n"
        "    return size, math.ceil(batch / size)",
        # the fixed part is forgotten
        "def micro_batch(memory, fixed, each, batch):\n"
        "    size = min(batch, memory // each)\n"
        "    return size, math.ceil(batch / size)",
        # the last micro-batch is dropped
        "def micro_batch(memory, fixed, each, batch):\n"
        "    size = min(batch, (memory - fixed) // each)\n"
        "    if size < 1:\n"
        "        raise ValueError('nothing fits')\n"
        "    return size, batch // size",
        # the fixed part above the memory
        """\
def micro_batch(memory, fixed, each, batch):
    size = min(batch, (memory - fixed) // each)
    if size == 0:
        raise ValueError('nothing fits')
    return size, math.ceil(batch / size)
""",
    ],
    "largest_batch": [
        # the fixed part is forgotten
        """\
def largest_batch(bytes_of, memory):
    rows = memory * 32 // bytes_of(32)
    if rows < 1:
        raise ValueError
    return rows
""",
        # tries until nothing is left
        """\
def largest_batch(bytes_of, memory):
    rows = 1
    while bytes_of(rows + 1) <= memory:
        rows += 1
    return rows
""",
        # rounded up
        """\
def largest_batch(bytes_of, memory):
    one, two = bytes_of(1), bytes_of(2)
    if one > memory:
        raise ValueError
    return 1 - (one - memory) // (two - one)
""",
        # a batch without rows
        """\
def largest_batch(bytes_of, memory):
    one, two = bytes_of(1), bytes_of(2)
    return max(0, 1 + (memory - one) // (two - one))
""",
    ],
}

ALSO_RIGHT = {
    "to_bfloat16": [
        "def to_bfloat16(x):\n    return x.to(torch.bfloat16).to(torch.float32)",
        """\
def to_bfloat16(x):
    bits = x.clone().view(torch.int32)
    odd = torch.bitwise_right_shift(bits, 16) % 2
    bits += 0x7FFF + odd
    return torch.bitwise_and(bits, -65536).view(torch.float32)
""",
    ],
    "largest_batch": [
        # from 1 and 2 rows
        """\
def largest_batch(bytes_of, memory):
    one, two = bytes_of(1), bytes_of(2)
    if one > memory:
        raise ValueError("not one row fits")
    return 1 + (memory - one) // (two - one)
""",
        # a fit through several sizes
        """\
def largest_batch(bytes_of, memory):
    rows = [8, 16, 32, 64]
    each, fixed = np.polyfit(rows, [bytes_of(n) for n in rows], 1)
    fits = np.floor((memory - fixed) / each + 1e-6).astype(int)
    if fits < 1:
        raise ValueError(f"{memory} bytes are too few")
    return fits
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
    "loss_scale": [
        # halved and doubled
        """\
def loss_scale(gradients):
    largest, scale = gradients.abs().max().item(), 1.0
    if largest == 0:
        return 1
    while largest * scale > 65504:
        scale /= 2
    while largest * scale * 2 <= 65504:
        scale *= 2
    return scale
""",
        # a tensor
        """\
def loss_scale(gradients):
    largest = gradients.abs().amax()
    return torch.where(largest > 0, torch.exp2(torch.floor(torch.log2(65504 / largest))), 1.0)
""",
    ],
    "micro_batch": [
        # a list
        """\
def micro_batch(memory, fixed, each, batch):
    room = memory - fixed
    if room < each:
        raise ValueError("not one example fits")
    size = min(batch, room // each)
    return [size, -(-batch // size)]
""",
        """\
def micro_batch(memory, fixed, each, batch):
    fits = [n for n in range(1, batch + 1) if fixed + n * each <= memory]
    if not fits:
        raise ValueError("not one example fits")
    return np.array([fits[-1], len(range(0, batch, fits[-1]))])
""",
    ],
}
