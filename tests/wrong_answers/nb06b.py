"""Wrong answers to the exercises of notebook 06b: each must be found out, with a reason."""

WRONG = {
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
}
