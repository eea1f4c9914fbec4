"""Wrong answers to the exercises of notebook 06: each must be found out, with a reason."""

WRONG = {
    "step_bytes": [
        # the gradients are forgotten
        "def step_bytes(count, optimizer):\n"
        "    return count * {'sgd': 4, 'momentum': 8, 'adam': 12}[optimizer]",
        # one average for Adam
        "def step_bytes(count, optimizer):\n"
        "    return count * {'sgd': 8, 'momentum': 12, 'adam': 12}[optimizer]",
    ],
    "activation_bytes": [
        # before and after each ReLU
        "def activation_bytes(widths, batch, size):\n    return 2 * sum(widths) * batch * size",
        # always four bytes
        "def activation_bytes(widths, batch, size):\n    return sum(widths) * batch * 4",
    ],
    "best_segments": [
        # as many as there are
        "def best_segments(blocks):\n    return blocks",
        # the root, whether or not it divides
        "def best_segments(blocks):\n    return round(math.sqrt(blocks))",
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
    ],
}

ALSO_RIGHT = {
    "to_bfloat16": ["def to_bfloat16(x):\n    return x.to(torch.bfloat16).to(torch.float32)"],
}
