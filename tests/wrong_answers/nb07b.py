"""Wrong answers to the exercises of notebook 07b: each must be found out, with a reason."""

WRONG = {
    "ring": [
        # all through device 0
        "def ring_allreduce(data, wires):\n"
        "    for i, other in enumerate(data[1:], 1):\n"
        "        data[0] += wires.send(i, 0, other)\n"
        "    for i, other in enumerate(data[1:], 1):\n"
        "        other.copy_(wires.send(0, i, data[0]))",
        # everything to everybody
        "def ring_allreduce(data, wires):\n"
        "    k = len(data)\n"
        "    sums = [\n"
        "        data[i] + sum(wires.send(j, i, data[j]) for j in range(k) if j != i)\n"
        "        for i in range(k)\n"
        "    ]\n"
        "    for vector, total in zip(data, sums):\n"
        "        vector.copy_(total)",
        # whole vectors go round in a ring
        "def ring_allreduce(data, wires):\n"
        "    k = len(data)\n"
        "    moving = [vector.clone() for vector in data]\n"
        "    for turn in range(k - 1):\n"
        "        moving = [wires.send((i - 1) % k, i, moving[i - 1]) for i in range(k)]\n"
        "        for vector, piece in zip(data, moving):\n"
        "            vector += piece",
        # past the wires
        "def ring_allreduce(data, wires):\n"
        "    total = sum(data)\n"
        "    for vector in data:\n"
        "        vector.copy_(total)",
        # the list is changed, the vectors are not
        "def ring_allreduce(data, wires):\n    data[:] = [sum(data)] * len(data)",
        # half of it: the sums do not go round
        "def ring_allreduce(data, wires):\n"
        "    k = len(data)\n"
        "    pieces = [vector.tensor_split(k) for vector in data]\n"
        "    for turn in range(k - 1):\n"
        "        for i in range(k):\n"
        "            j, right = (i - turn) % k, (i + 1) % k\n"
        "            pieces[right][j].add_(wires.send(i, right, pieces[i][j]))",
    ],
    "smallest_part": [
        # rounded down
        "def smallest_part(target, n, image_s, nbytes, bandwidth, start_s):\n"
        "    sending_s = start_s + 2 * (n - 1) / n * nbytes / bandwidth\n"
        "    return max(1, int(target / (1 - target) * sending_s / image_s))",
        # one way only
        "def smallest_part(target, n, image_s, nbytes, bandwidth, start_s):\n"
        "    sending_s = start_s + (n - 1) / n * nbytes / bandwidth\n"
        "    return max(1, math.ceil(target / (1 - target) * sending_s / image_s))",
        # everything through one device
        "def smallest_part(target, n, image_s, nbytes, bandwidth, start_s):\n"
        "    sending_s = start_s + 2 * (n - 1) * nbytes / bandwidth\n"
        "    return max(1, math.ceil(target / (1 - target) * sending_s / image_s))",
        # the ratio of computing to sending, not to the whole
        "def smallest_part(target, n, image_s, nbytes, bandwidth, start_s):\n"
        "    sending_s = start_s + 2 * (n - 1) / n * nbytes / bandwidth\n"
        "    return max(1, math.ceil(target * sending_s / image_s))",
        # the cost of the call is forgotten
        "def smallest_part(target, n, image_s, nbytes, bandwidth, start_s):\n"
        "    sending_s = 2 * (n - 1) / n * nbytes / bandwidth\n"
        "    return max(1, math.ceil(target / (1 - target) * sending_s / image_s))",
        # not whole
        "def smallest_part(target, n, image_s, nbytes, bandwidth, start_s):\n"
        "    sending_s = start_s + 2 * (n - 1) / n * nbytes / bandwidth\n"
        "    return max(1.0, target / (1 - target) * sending_s / image_s)",
        # none at all on one worker
        "def smallest_part(target, n, image_s, nbytes, bandwidth, start_s):\n"
        "    sending_s = start_s + 2 * (n - 1) / n * nbytes / bandwidth\n"
        "    return math.ceil(target / (1 - target) * sending_s / image_s)",
    ],
}

ALSO_RIGHT = {
    "ring": [
        # each device owns a piece and gets it from the others, then gives it to them
        """\
def ring_allreduce(data, wires):
    k = len(data)
    pieces = [vector.tensor_split(k) for vector in data]
    for owner in range(k):
        for other in range(k):
            if other != owner:
                pieces[owner][owner].add_(wires.send(other, owner, pieces[other][owner]))
    for owner in range(k):
        for other in range(k):
            if other != owner:
                pieces[other][owner].copy_(wires.send(owner, other, pieces[owner][owner]))
""",
        # to the left
        """\
def ring_allreduce(data, wires):
    k = len(data)
    parts = [list(vector.tensor_split(k)) for vector in data]
    for turn in range(2 * (k - 1)):
        moving = [(i, (i + turn) % k, (i - 1) % k) for i in range(k)]
        arrived = [(left, j, wires.send(i, left, parts[i][j])) for i, j, left in moving]
        for left, j, piece in arrived:
            parts[left][j][:] = piece + (parts[left][j] if turn < k - 1 else 0)
""",
    ],
    "smallest_part": [
        # NumPy's ceil gives a float
        """\
def smallest_part(target, n, image_s, nbytes, bandwidth, start_s):
    sending_s = start_s + 2 * (n - 1) / n * nbytes / bandwidth
    return max(1.0, np.ceil(target / (1 - target) * sending_s / image_s - 1e-9))
""",
        # one by one
        """\
def smallest_part(target, n, image_s, nbytes, bandwidth, start_s):
    sending_s = start_s + 2 * (n - 1) / n * nbytes / bandwidth
    part = 1
    while part * image_s < target * (part * image_s + sending_s) - 1e-12:
        part += 1
    return part
""",
        """\
def smallest_part(target, n, image_s, nbytes, bandwidth, start_s):
    import numpy as np

    least_s = (start_s + 2 * nbytes * (1 - 1 / n) / bandwidth) / (1 / target - 1)
    return np.maximum(1, np.ceil(least_s / image_s - 1e-9).astype(int))
""",
    ],
}
