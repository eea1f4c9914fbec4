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
    "buckets": [
        # from the first gradient to the last
        "def buckets(sizes, first, cap):\n"
        "    full, held = [], 0\n"
        "    for size in sizes:\n"
        "        held += size\n"
        "        if held >= (cap if full else first):\n"
        "            full.append(held)\n"
        "            held = 0\n"
        "    return full + [held] if held else full",
        # the first bucket like all others
        "def buckets(sizes, first, cap):\n"
        "    full, held = [], 0\n"
        "    for size in reversed(sizes):\n"
        "        held += size\n"
        "        if held >= cap:\n"
        "            full.append(held)\n"
        "            held = 0\n"
        "    return full + [held] if held else full",
        # what is left is lost
        "def buckets(sizes, first, cap):\n"
        "    full, held = [], 0\n"
        "    for size in reversed(sizes):\n"
        "        held += size\n"
        "        if held >= (cap if full else first):\n"
        "            full.append(held)\n"
        "            held = 0\n"
        "    return full",
        # no bucket above its limit
        "def buckets(sizes, first, cap):\n"
        "    full, held = [], 0\n"
        "    for size in reversed(sizes):\n"
        "        if held and held + size > (cap if full else first):\n"
        "            full.append(held)\n"
        "            held = 0\n"
        "        held += size\n"
        "    return full + [held]",
    ],
}
