"""Wrong answers to the exercises of notebook 08b: each must be found out, with a reason."""

WRONG = {
    "held": [
        # everything is sharded from the first stage on
        "def held(stage, n, weight, gradient, state):\n"
        "    whole = weight + gradient + state\n"
        "    return whole / n if stage else whole",
        # the weights first
        "def held(stage, n, weight, gradient, state):\n"
        "    return (weight / (n if stage >= 1 else 1) + gradient / (n if stage >= 2 else 1)\n"
        "            + state / (n if stage >= 3 else 1))",
        # the weights before the gradients
        """\
def held(stage, n, weight, gradient, state):
    order = [state, weight, gradient]
    return sum(order[stage:]) + sum(order[:stage]) / n
""",
        # nothing is sharded
        "def held(stage, n, weight, gradient, state):\n    return weight + gradient + state",
        # all in one step at stage 3 only
        """\
def held(stage, n, weight, gradient, state):
    return (weight + gradient + state) / (n if stage == 3 else 1)
""",
    ],
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
    "devices": [
        # the activations are forgotten
        "def fewest_devices(parameters, kept, memory):\n"
        "    return None if kept >= memory else math.ceil(16 * parameters / memory)",
        # all at once: gradients and activations do not meet
        """\
def fewest_devices(parameters, kept, memory):
    if kept >= memory:
        return None
    return math.ceil(16 * parameters / (memory - kept))
""",
        # only the first moment
        """\
def fewest_devices(parameters, kept, memory):
    if kept >= memory:
        return None
    return math.ceil(12 * parameters / (memory - kept))
""",
        # the activations are divided, too
        """\
def fewest_devices(parameters, kept, memory):
    return math.ceil(max(12 * parameters + kept, 16 * parameters) / memory)
""",
        # one more than enough
        """\
def fewest_devices(parameters, kept, memory):
    if kept >= memory:
        return None
    return 1 + max(12 * parameters // (memory - kept), 16 * parameters // memory)
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
    "held": [
        # what is whole and what is divided
        """\
def held(stage, n, weight, gradient, state):
    parts = [state, gradient, weight]
    return sum(parts[:stage]) / n + sum(parts[stage:])
""",
        """\
def held(stage, n, weight, gradient, state):
    import numpy as np

    divided = np.arange(3) >= 3 - stage
    return np.where(divided, 1 / n, 1.0) @ np.array([weight, gradient, state], float)
""",
    ],
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
    "devices": [
        # tries one number after the other
        """\
def fewest_devices(parameters, kept, memory):
    n = 1
    while kept < memory:
        if max(12 * parameters / n + kept, 16 * parameters / n) <= memory:
            return n
        n += 1
    return None
""",
        # whole numbers, of torch's type
        """\
def fewest_devices(parameters, kept, memory):
    if memory <= kept:
        return None
    needs = [-(-12 * parameters // (memory - kept)), -(-16 * parameters // memory)]
    return torch.tensor(needs, dtype=torch.float64).max()
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
