"""Wrong answers to the exercises of notebook 08: each must be found out, with a reason."""

WRONG = {
    "settings": [
        # the batch stays what each device sees: another curve
        "def settings(rows, lr, epochs, images, devices, keep):\n"
        "    return rows, lr, epochs * (images // rows)",
        # the learning rate follows although the batch does not grow
        "def settings(rows, lr, epochs, images, devices, keep):\n"
        "    if keep == 'curve':\n"
        "        if rows % devices:\n"
        "            raise ValueError\n"
        "        return rows // devices, lr * devices, epochs * (images // rows)\n"
        "    return rows, lr * devices, epochs * (images // (rows * devices))",
        # as many steps as before
        "def settings(rows, lr, epochs, images, devices, keep):\n"
        "    if keep == 'curve':\n"
        "        if rows % devices:\n"
        "            raise ValueError\n"
        "        return rows // devices, lr, epochs * (images // rows)\n"
        "    return rows, lr * devices, epochs * (images // rows)",
        # rounds without a word
        "def settings(rows, lr, epochs, images, devices, keep):\n"
        "    if keep == 'curve':\n"
        "        return rows // devices, lr, epochs * (images // rows)\n"
        "    return rows, lr * devices, epochs * (images // (rows * devices))",
        # steps counted over all epochs at once
        """\
def settings(rows, lr, epochs, images, devices, keep):
    step = rows if keep == "curve" else rows * devices
    if step % devices:
        raise ValueError
    return step // devices, lr * step / rows, epochs * images // step
""",
    ],
    "best_number": [
        # the more, the better
        "def best_number(step_s, nbytes, bandwidth, latency_s, most):\n    return most",
        # latency forgotten
        "def best_number(step_s, nbytes, bandwidth, latency_s, most):\n"
        "    def seconds(n):\n"
        "        return step_s / n + 2 * (n - 1) / n * nbytes / bandwidth\n"
        "    return min(range(1, most + 1), key=seconds)",
        # whole gradients go round
        "def best_number(step_s, nbytes, bandwidth, latency_s, most):\n"
        "    def seconds(n):\n"
        "        return step_s / n + 2 * (n - 1) * (latency_s + nbytes / bandwidth)\n"
        "    return min(range(1, most + 1), key=seconds)",
        # of equally good ones the largest
        """\
def best_number(step_s, nbytes, bandwidth, latency_s, most):
    def seconds(n):
        return step_s / n + 2 * (n - 1) * (latency_s + nbytes / n / bandwidth)

    return min(range(most, 0, -1), key=seconds)
""",
    ],
    "share_out": [
        # equal pieces
        "def share_out(rows, speeds):\n"
        "    n = len(speeds)\n"
        "    pieces = [rows // n + (i < rows % n) for i in range(n)]\n"
        "    return pieces, rows / max(speeds) / max(p / s for p, s in zip(pieces, speeds))",
        # rounding loses rows, or finds some
        "def share_out(rows, speeds):\n"
        "    pieces = [round(rows * s / sum(speeds)) for s in speeds]\n"
        "    return pieces, rows / max(speeds) / max(p / s for p, s in zip(pieces, speeds))",
        # what is left goes to the last one
        "def share_out(rows, speeds):\n"
        "    pieces = [int(rows * s / sum(speeds)) for s in speeds[:-1]]\n"
        "    pieces.append(rows - sum(pieces))\n"
        "    return pieces, rows / max(speeds) / max(p / s for p, s in zip(pieces, speeds))",
        # the gain of pieces that may be broken
        "def share_out(rows, speeds):\n"
        "    pieces = [0] * len(speeds)\n"
        "    for _ in range(rows):\n"
        "        i = min(range(len(speeds)), key=lambda i: (pieces[i] + 1) / speeds[i])\n"
        "        pieces[i] += 1\n"
        "    return pieces, sum(speeds) / max(speeds)",
    ],
    "accumulate": [
        # a mean of means
        "def accumulate_evenly(net, loss_fn, parts):\n"
        "    for i, (inputs, labels) in enumerate(parts):\n"
        "        last = i == len(parts) - 1\n"
        "        with contextlib.nullcontext() if last else net.no_sync():\n"
        "            (loss_fn(net(inputs), labels) / len(parts)).backward()",
        # not divided
        "def accumulate_evenly(net, loss_fn, parts):\n"
        "    for i, (inputs, labels) in enumerate(parts):\n"
        "        last = i == len(parts) - 1\n"
        "        with contextlib.nullcontext() if last else net.no_sync():\n"
        "            loss_fn(net(inputs), labels).backward()",
        # sent every time
        "def accumulate_evenly(net, loss_fn, parts):\n"
        "    rows = sum(len(labels) for _, labels in parts)\n"
        "    for inputs, labels in parts:\n"
        "        (loss_fn(net(inputs), labels) * len(labels) / rows).backward()",
        # the forward pass is outside
        "def accumulate_evenly(net, loss_fn, parts):\n"
        "    rows = sum(len(labels) for _, labels in parts)\n"
        "    for i, (inputs, labels) in enumerate(parts):\n"
        "        loss = loss_fn(net(inputs), labels) * len(labels) / rows\n"
        "        last = i == len(parts) - 1\n"
        "        with contextlib.nullcontext() if last else net.no_sync():\n"
        "            loss.backward()",
        # never sent
        "def accumulate_evenly(net, loss_fn, parts):\n"
        "    rows = sum(len(labels) for _, labels in parts)\n"
        "    with net.no_sync():\n"
        "        for inputs, labels in parts:\n"
        "            (loss_fn(net(inputs), labels) * len(labels) / rows).backward()",
    ],
}

ALSO_RIGHT = {
    "settings": [
        # a list, the rows of a step first
        """\
def settings(rows, lr, epochs, images, devices, keep):
    step = rows if keep == "curve" else rows * devices
    each, rest = divmod(step, devices)
    if rest:
        raise ValueError("not evenly")
    return [each, lr * step / rows, images // step * epochs]
""",
        """\
def settings(rows, lr, epochs, images, devices, keep):
    factor = {"curve": 1, "load": devices}[keep]
    each = np.int64(rows) * factor / devices
    if each != int(each):
        raise ValueError
    return int(each), np.float32(lr) * factor, np.array(epochs * (images // (rows * factor)))
""",
    ],
    "best_number": [
        # until it does not help any more
        """\
def best_number(step_s, nbytes, bandwidth, latency_s, most):
    def seconds(n):
        return step_s / n + 2 * (n - 1) * latency_s + 2 * (n - 1) / n * nbytes / bandwidth

    n = 1
    while n < most and seconds(n + 1) < seconds(n):
        n += 1
    return n
""",
        # an array of floats
        """\
def best_number(step_s, nbytes, bandwidth, latency_s, most):
    n = np.linspace(1, most, most)
    return n[np.argmin(step_s / n + 2 * (n - 1) * (latency_s + nbytes / n / bandwidth))]
""",
    ],
    "share_out": [
        # the earliest end by bisection
        """\
def share_out(rows, speeds):
    ends = sorted({i / s for s in speeds for i in range(1, rows + 1)})
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        enough = sum(int(ends[middle] * s + 1e-9) for s in speeds) >= rows
        low, high = (low, middle) if enough else (middle + 1, high)
    pieces, left = [], rows
    for s in speeds:
        pieces.append(min(left, int(ends[low] * s + 1e-9)))
        left -= pieces[-1]
    return pieces, rows / max(speeds) / ends[low]
""",
        # an array in a list
        """\
def share_out(rows, speeds):
    speeds, pieces = np.array(speeds), np.zeros(len(speeds))
    for _ in range(rows):
        pieces[np.argmin((pieces + 1) / speeds)] += 1
    return [pieces, rows / speeds.max() / (pieces / speeds).max()]
""",
    ],
    "accumulate": [
        # sums instead of means
        """\
def accumulate_evenly(net, loss_fn, parts):
    rows = sum(len(labels) for _, labels in parts)
    *first, last = parts
    with net.no_sync():
        for inputs, labels in first:
            (loss_fn(net(inputs), labels) * (len(labels) / rows)).backward()
    inputs, labels = last
    (loss_fn(net(inputs), labels) * (len(labels) / rows)).backward()
""",
        # with an exit stack
        """\
def accumulate_evenly(net, loss_fn, parts):
    rows, left = sum(len(inputs) for inputs, _ in parts), len(parts)
    for inputs, labels in parts:
        left -= 1
        with contextlib.ExitStack() as stack:
            if left:
                stack.enter_context(net.no_sync())
            loss = loss_fn(net(inputs), labels)
            loss.backward(gradient=torch.tensor(len(inputs) / rows))
""",
    ],
}
