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
        # nothing is sharded
        "def held(stage, n, weight, gradient, state):\n    return weight + gradient + state",
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
    ],
    "interval": [
        # a failure costs the whole interval
        "def lost(interval_s, save_s, failure_s):\n"
        "    return save_s / interval_s + interval_s / failure_s\n"
        "def best(save_s, failure_s):\n"
        "    return (save_s * failure_s) ** 0.5",
        # the square root without the two
        "def lost(interval_s, save_s, failure_s):\n"
        "    return save_s / interval_s + interval_s / 2 / failure_s\n"
        "def best(save_s, failure_s):\n"
        "    return (save_s * failure_s) ** 0.5",
        # as rarely as possible
        "def lost(interval_s, save_s, failure_s):\n"
        "    return save_s / interval_s + interval_s / 2 / failure_s\n"
        "def best(save_s, failure_s):\n"
        "    return failure_s",
    ],
    "cheaper": [
        # always the same
        "def cheaper(width, wide, batch, n):\n    return 'data'",
        # the batch against the width
        "def cheaper(width, wide, batch, n):\n    return 'tensor' if batch < width else 'data'",
        # the batch is divided
        "def cheaper(width, wide, batch, n):\n    return 'tensor' if batch / n < wide else 'data'",
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
