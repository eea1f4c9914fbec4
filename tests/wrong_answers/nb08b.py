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
}
