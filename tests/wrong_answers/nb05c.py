"""Wrong answers to the exercises of notebook 05c: each must be found out, with a reason."""

WRONG = {
    "following": [
        # by the position in the order, not by the place
        "def following(order):\n    return [*order[1:], *order[:1]]",
        # the walk backwards
        """\
def following(order):
    nexts = [0] * len(order)
    for before, place in zip([*order[-1:], *order[:-1]], order):
        nexts[place] = before
    return nexts
""",
        # the last place leads nowhere
        """\
def following(order):
    nexts = list(range(len(order)))
    for place, after in zip(order, order[1:]):
        nexts[place] = after
    return nexts
""",
        # a random list of next places
        "def following(order):\n    return list(order)",
    ],
}

ALSO_RIGHT = {
    "following": [
        # an array
        """\
def following(order):
    nexts = np.empty(len(order), dtype=int)
    nexts[order] = np.roll(order, -1)
    return nexts
""",
        # a dictionary in between
        """\
def following(order):
    after = {place: order[(i + 1) % len(order)] for i, place in enumerate(order)}
    return tuple(after[place] for place in range(len(order)))
""",
    ],
}
