"""Wrong answers to the exercises of notebook 09: each must be found out, with a reason."""

_TWO_RINGS = """\
def one_way(data, wire, step):
    rank, n = dist.get_rank(), dist.get_world_size()
    chunks = data.tensor_split(n)
    buffer = torch.empty_like(chunks[0])
    for turn in range(2 * (n - 1)):
        into = chunks[(rank - step * (turn + 1)) % n]
        received = buffer[: len(into)] if turn < n - 1 else into
        out = chunks[(rank - step * turn) % n]
        works = [wire.send(out, (rank + step) % n), wire.receive(received, (rank - step) % n)]
        finish(works)
        if turn < n - 1:
            into += received


"""

WRONG = {
    "both_ways_s": [
        # always twice as fast
        "def both_ways_s(n, nbytes, alpha, beta, own_links):\n"
        "    return (n - 1) * (alpha + beta * nbytes / n)",
        # a single link carries twice as much
        "def both_ways_s(n, nbytes, alpha, beta, own_links):\n"
        "    return 2 * (n - 1) * (alpha + beta * nbytes / n / 2)",
        # fewer turns
        "def both_ways_s(n, nbytes, alpha, beta, own_links):\n"
        "    turns = (n - 1) if own_links else 2 * (n - 1)\n"
        "    return turns * (alpha + beta * nbytes / n)",
        # two workers have two links
        "def both_ways_s(n, nbytes, alpha, beta, own_links):\n"
        "    messages = 1 if own_links else 2\n"
        "    return 2 * (n - 1) * messages * (alpha + beta * nbytes / n / 2)",
        # two messages on one link at the price of one
        """\
def both_ways_s(n, nbytes, alpha, beta, own_links):
    messages = 2 if n == 2 else 1
    links = 2 if own_links and n > 2 else 1
    return 2 * (n - 1) * (messages * alpha + beta * nbytes / n / links)
""",
        # two messages to one neighbour at the price of one
        """\
def both_ways_s(n, nbytes, alpha, beta, own_links):
    halves = 2 if own_links and n > 2 else 1
    return 2 * (n - 1) * (alpha + beta * nbytes / n / halves)
""",
    ],
    "overlapped_s": [
        # nothing overlaps
        "def overlapped_s(compute_s, send_s):\n    return sum(compute_s) + sum(send_s)",
        # everything overlaps
        "def overlapped_s(compute_s, send_s):\n    return max(sum(compute_s), sum(send_s))",
        # only the last one is seen
        "def overlapped_s(compute_s, send_s):\n"
        "    return sum(compute_s) + (send_s[-1] if send_s else 0)",
        # all gradients travel at once
        "def overlapped_s(compute_s, send_s):\n"
        "    ends = [sum(compute_s[: i + 1]) + s for i, s in enumerate(send_s)]\n"
        "    return max(ends, default=0)",
        # lockstep: the next is computed while this one is sent, and no further
        """\
def overlapped_s(compute_s, send_s):
    if not compute_s:
        return 0
    pairs = zip(compute_s[1:], send_s)
    return compute_s[0] + sum(max(c, s) for c, s in pairs) + send_s[-1]
""",
        # the first, the longer side, the last
        """\
def overlapped_s(compute_s, send_s):
    if not compute_s:
        return 0
    return compute_s[0] + max(sum(compute_s[1:]), sum(send_s[:-1])) + send_s[-1]
""",
    ],
    "two_way_ring": [
        # all goes to the right
        _TWO_RINGS + "def two_way_ring(data, wire):\n    one_way(data, wire, 1)",
        # one direction after the other
        _TWO_RINGS + "def two_way_ring(data, wire):\n"
        "    first, second = data.tensor_split(2)\n"
        "    one_way(first, wire, 1)\n"
        "    one_way(second, wire, -1)",
        # everything in both directions
        _TWO_RINGS + "def two_way_ring(data, wire):\n"
        "    other = data.clone()\n"
        "    one_way(data, wire, 1)\n"
        "    one_way(other, wire, -1)",
        # only the first half
        _TWO_RINGS + "def two_way_ring(data, wire):\n    one_way(data.tensor_split(2)[0], wire, 1)",
        # the library does it
        "def two_way_ring(data, wire):\n    dist.all_reduce(data)",
    ],
    "reduce_while_computing": [
        # one after the other
        "def reduce_while_computing(backward, all_reduce):\n"
        "    gradients = []\n"
        "    for gradient in backward():\n"
        "        all_reduce(gradient)\n"
        "        gradients.append(gradient)\n"
        "    return gradients",
        # starts when all are computed
        "def reduce_while_computing(backward, all_reduce):\n"
        "    gradients = list(backward())\n"
        "    for work in [all_reduce(g, async_op=True) for g in gradients]:\n"
        "        work.wait()\n"
        "    return gradients",
        # waits at once
        "def reduce_while_computing(backward, all_reduce):\n"
        "    gradients = []\n"
        "    for gradient in backward():\n"
        "        all_reduce(gradient, async_op=True).wait()\n"
        "        gradients.append(gradient)\n"
        "    return gradients",
        # never waits
        "def reduce_while_computing(backward, all_reduce):\n"
        "    gradients = []\n"
        "    for gradient in backward():\n"
        "        all_reduce(gradient, async_op=True)\n"
        "        gradients.append(gradient)\n"
        "    return gradients",
        # waits for the last one only
        "def reduce_while_computing(backward, all_reduce):\n"
        "    gradients = []\n"
        "    for gradient in backward():\n"
        "        work = all_reduce(gradient, async_op=True)\n"
        "        gradients.append(gradient)\n"
        "    work.wait()\n"
        "    return gradients",
    ],
    "fit": [
        # the mean of each size
        """\
def fit(sizes, seconds):
    mean = {n: np.mean([s for m, s in zip(sizes, seconds) if m == n]) for n in sizes}
    beta, alpha = np.polyfit(list(mean), list(mean.values()), 1)
    return alpha, beta
""",
        # all messages
        """\
def fit(sizes, seconds):
    beta, alpha = np.polyfit(sizes, seconds, 1)
    return alpha, beta
""",
        # the quickest message is taken for a message without bytes
        """\
def fit(sizes, seconds):
    largest = min(s for n, s in zip(sizes, seconds) if n == max(sizes))
    return min(seconds), (largest - min(seconds)) / max(sizes)
""",
        # the wrong way round
        """\
def fit(sizes, seconds):
    quickest = {n: min(s for m, s in zip(sizes, seconds) if m == n) for n in sizes}
    return tuple(np.polyfit(list(quickest), list(quickest.values()), 1))
""",
    ],
}

ALSO_RIGHT = {
    "fit": [
        # through the smallest and the largest
        """\
def fit(sizes, seconds):
    def quickest(size):
        return min(s for n, s in zip(sizes, seconds) if n == size)

    low, high = min(sizes), max(sizes)
    beta = (quickest(high) - quickest(low)) / (high - low)
    return [quickest(low) - beta * low, beta]
""",
        # by least squares
        """\
def fit(sizes, seconds):
    best = {}
    for n, s in sorted(zip(sizes, seconds)):
        best.setdefault(n, s)
    A = np.array([[1.0, n] for n in best])
    return np.linalg.lstsq(A, np.array(list(best.values())), rcond=None)[0]
""",
    ],
    "two_way_ring": [
        # the halves are the even and the odd places
        "def two_way_ring(data, wire):\n"
        "    rank, n = dist.get_rank(), dist.get_world_size()\n"
        "    halves = [data[::2].clone(), data[1::2].clone()]\n"
        "    for turn in range(2 * (n - 1)):\n"
        "        works, arrived = [], []\n"
        "        for half, step in zip(halves, (1, -1)):\n"
        "            chunks = half.tensor_split(n)\n"
        "            into = chunks[(rank - step * (turn + 1)) % n]\n"
        "            received = torch.empty_like(into)\n"
        "            works += [\n"
        "                wire.send(chunks[(rank - step * turn) % n], (rank + step) % n),\n"
        "                wire.receive(received, (rank - step) % n),\n"
        "            ]\n"
        "            arrived.append((into, received))\n"
        "        for work in works:\n"
        "            work.wait()\n"
        "        for into, received in arrived:\n"
        "            into.copy_(into + received if turn < n - 1 else received)\n"
        "    data[::2], data[1::2] = halves",
        # pieces arrive in new tensors
        """\
def two_way_ring(data, wire):
    rank, n = dist.get_rank(), dist.get_world_size()
    middle = (len(data) + 1) // 2
    rings = [(data[:middle].tensor_split(n), 1), (data[middle:].tensor_split(n), -1)]
    for turn in range(2 * (n - 1)):
        into = [chunks[(rank - step * (turn + 1)) % n] for chunks, step in rings]
        new = [torch.empty_like(chunk) for chunk in into]
        works = [
            wire.send(chunks[(rank - step * turn) % n].clone(), (rank + step) % n)
            for chunks, step in rings
        ]
        works += [wire.receive(one, (rank - step) % n) for one, (_, step) in zip(new, rings)]
        finish(works)
        for chunk, one in zip(into, new):
            chunk.copy_(chunk + one if turn < n - 1 else one)
""",
    ],
    "both_ways_s": [
        """\
def both_ways_s(n, nbytes, alpha, beta, own_links):
    turns, half = 2 * (n - 1), nbytes / 2 / n
    if n == 2:
        return turns * 2 * (alpha + beta * half)
    if own_links:
        return turns * (alpha + beta * half)
    return turns * (2 * alpha + 2 * beta * half)
""",
        """\
def both_ways_s(n, nbytes, alpha, beta, own_links):
    total = 0.0
    for turn in range(2 * (n - 1)):
        for message in range(1 if own_links and n > 2 else 2):
            total += alpha
        total += beta * nbytes / n / (2 if own_links and n > 2 else 1)
    return torch.tensor(total)
""",
    ],
    "overlapped_s": [
        # the longest of all ways through
        """\
def overlapped_s(compute_s, send_s):
    ways = [sum(compute_s[: i + 1]) + sum(send_s[i:]) for i in range(len(send_s))]
    return np.max(ways, initial=0)
""",
        # an array of no dimension
        """\
def overlapped_s(compute_s, send_s):
    sent = np.array(0.0, dtype=np.float32)
    for ready, seconds in zip(np.cumsum(compute_s), send_s):
        sent = np.maximum(sent, ready) + seconds
    return np.array(sent)
""",
    ],
    "reduce_while_computing": [
        # the list is built by the starts
        """\
def reduce_while_computing(backward, all_reduce):
    under_way = [(all_reduce(g, async_op=True), g) for g in backward()]
    return tuple((work.wait(), gradient)[1] for work, gradient in under_way)
""",
        """\
def reduce_while_computing(backward, all_reduce):
    from collections import deque

    works, gradients = deque(), []
    generator = backward()
    while (gradient := next(generator, None)) is not None:
        works.append(all_reduce(gradient, async_op=True))
        gradients.append(gradient)
    while works:
        works.popleft().wait()
    return gradients
""",
    ],
}
