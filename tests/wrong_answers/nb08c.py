"""Wrong answers to the exercises of notebook 08c: each must be found out, with a reason."""

WRONG = {
    "micro": [
        # as many as stages
        "def fewest(stages, share):\n    return stages",
        # rounded down
        "def fewest(stages, share):\n    return max(1, int((stages - 1) * (1 - share) / share))",
        # one more than enough
        "import math\n"
        "def fewest(stages, share):\n"
        "    return math.ceil((stages - 1) * (1 - share) / share) + 1",
        # the bubble relative to the work, not to the whole
        """\
def fewest(stages, share):
    return max(1, math.ceil((stages - 1) / share))
""",
    ],
    "cheaper": [
        # always the same
        "def cheaper(width, wide, batch, n):\n    return 'data'",
        # the batch against the width
        "def cheaper(width, wide, batch, n):\n    return 'tensor' if batch < width else 'data'",
        # the batch is divided
        "def cheaper(width, wide, batch, n):\n    return 'tensor' if batch / n < wide else 'data'",
        # of equals the wrong one
        """\
def cheaper(width, wide, batch, n):
    return 'tensor' if batch <= wide else 'data'
""",
    ],
    "schedule": [
        # GPipe: all are in flight
        "def one_f_one_b(stage, stages, micro):\n"
        "    return [f'F{i}' for i in range(micro)] + [f'B{i}' for i in range(micro)]",
        # one at a time: a bubble as large as can be
        "def one_f_one_b(stage, stages, micro):\n"
        "    return [f'{kind}{i}' for i in range(micro) for kind in 'FB']",
        # the last stage turns back to front
        "def one_f_one_b(stage, stages, micro):\n"
        "    ahead = stages - stage - 1\n"
        "    order = [f'F{i}' for i in range(ahead)]\n"
        "    for i in range(micro - ahead):\n"
        "        order += [f'B{i}', f'F{ahead + i}']\n"
        "    return order + [f'B{i}' for i in range(micro - ahead, micro)]",
        # forgets the end
        "def one_f_one_b(stage, stages, micro):\n"
        "    ahead = stages - stage - 1\n"
        "    order = [f'F{i}' for i in range(ahead)]\n"
        "    for i in range(micro - ahead):\n"
        "        order += [f'F{ahead + i}', f'B{i}']\n"
        "    return order",
    ],
}

ALSO_RIGHT = {
    "micro": [
        # solved for m, and a float
        """\
def fewest(stages, share):
    import numpy as np

    return max(1.0, np.ceil((stages - 1) * (1 - share) / share - 1e-9))
""",
        """\
def fewest(stages, share):
    import itertools

    idle = stages - 1
    return next(m for m in itertools.count(1) if idle <= share * (m + idle) + 1e-9)
""",
    ],
    "cheaper": [
        """\
def cheaper(width, wide, batch, n):
    return "data" if batch >= wide else "tensor"
""",
        # with the bytes that each process sends
        """\
def cheaper(width, wide, batch, n):
    sent = 2 * (n - 1) / n
    bytes_sent = {"data": sent * 2 * width * wide * 4, "tensor": sent * 2 * batch * width * 4}
    return min(bytes_sent, key=bytes_sent.get)
""",
    ],
    "schedule": [
        # whoever may, goes forward
        """\
def one_f_one_b(stage, stages, micro):
    order, forward, backward = [], 0, 0
    while backward < micro:
        if forward < micro and forward - backward < stages - stage:
            order.append(f"F{forward}")
            forward += 1
        else:
            order.append(f"B{backward}")
            backward += 1
    return tuple(order)
""",
        # an array of texts
        """\
def one_f_one_b(stage, stages, micro):
    import numpy as np

    ahead = stages - stage - 1
    turns = [(i, 0, f"F{i}") for i in range(micro)]
    turns += [(i + ahead, 1, f"B{i}") for i in range(micro)]
    return np.array([name for _, _, name in sorted(turns)])
""",
    ],
}
