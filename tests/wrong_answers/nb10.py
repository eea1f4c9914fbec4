"""Wrong answers to the exercises of notebook 10: each must be found out, with a reason."""

WRONG = {
    "amdahl": [
        # the factors multiplied, as if each were of the whole
        "def amdahl(parts):\n    import math\n    return math.prod(factor for _, factor in parts)",
        # the rest of the time is forgotten
        "def amdahl(parts):\n    return 1 / (sum(share / factor for share, factor in parts) or 1)",
        # one change after the other, with the shares of the beginning
        "def amdahl(parts):\n"
        "    whole = 1.0\n"
        "    for share, factor in parts:\n"
        "        whole /= 1 - share + share / factor\n"
        "    return whole",
        # what is left, not how many times as fast
        "def amdahl(parts):\n    return 1 - sum(s - s / f for s, f in parts)",
    ],
    "worker": [
        # there is always a free core
        "def with_worker(batch_s, step_s, threads, cores):\n    return max(batch_s, step_s)",
        # nothing ever overlaps
        "def with_worker(batch_s, step_s, threads, cores):\n    return batch_s + step_s",
        # the threads' work counted once
        "def with_worker(batch_s, step_s, threads, cores):\n"
        "    if threads < cores:\n"
        "        return max(batch_s, step_s)\n"
        "    return max(batch_s, (batch_s + step_s) / cores)",
        # a long batch is forgotten where no core is free
        "def with_worker(batch_s, step_s, threads, cores):\n"
        "    if threads < cores:\n"
        "        return max(batch_s, step_s)\n"
        "    return (batch_s + threads * step_s) / cores",
    ],
    "cumulative": [
        # the ends multiplied
        "def cumulative(steps):\n"
        "    import math\n"
        "    return tuple(math.prod(column) for column in zip(*steps))",
        # distances added in squares without the logarithm
        "def cumulative(steps):\n"
        "    import math\n"
        "    ratio = math.prod(s[0] for s in steps)\n"
        "    below = math.hypot(*[s[0] - s[1] for s in steps])\n"
        "    above = math.hypot(*[s[2] - s[0] for s in steps])\n"
        "    return ratio, ratio - below, ratio + above",
        # the ends in the other order
        "def cumulative(steps):\n"
        "    import math\n"
        "    ratio = math.prod(step[0] for step in steps)\n"
        "    below = math.hypot(*[math.log(step[0] / step[1]) for step in steps])\n"
        "    above = math.hypot(*[math.log(step[2] / step[0]) for step in steps])\n"
        "    return ratio, ratio * math.exp(above), ratio * math.exp(-below)",
        # the ratios added
        "def cumulative(steps):\n    return tuple(sum(column) for column in zip(*steps))",
        # the ratio alone
        "def cumulative(steps):\n    import math\n    return math.prod(step[0] for step in steps)",
    ],
    "epoch": [
        # as it was
        "fast_epoch = slow_epoch",
        # scaled once, but still row by row
        "def fast_epoch(X, y, w, lr=0.1, batch=16):\n"
        "    scaled, losses = (X - X.mean(0)) / X.std(0), []\n"
        "    for rows, targets in zip(scaled.split(batch), y.split(batch)):\n"
        "        gradient, loss = torch.zeros_like(w), 0.0\n"
        "        for row, target in zip(rows, targets):\n"
        "            error = row @ w - target\n"
        "            gradient, loss = gradient + error * row, loss + error**2\n"
        "        losses.append(loss / len(rows))\n"
        "        w = w - lr * gradient / len(rows)\n"
        "    return w, torch.stack(losses)",
        # one product for each batch, but everything scaled in each step
        "def fast_epoch(X, y, w, lr=0.1, batch=16):\n"
        "    losses = []\n"
        "    for start in range(0, len(X), batch):\n"
        "        rows = ((X - X.mean(0)) / X.std(0))[start : start + batch]\n"
        "        errors = rows @ w - y[start : start + batch]\n"
        "        losses.append((errors**2).mean())\n"
        "        w = w - lr * rows.T @ errors / len(rows)\n"
        "    return w, torch.stack(losses)",
        # the losses are still copied in each step
        "def fast_epoch(X, y, w, lr=0.1, batch=16):\n"
        "    scaled, losses = (X - X.mean(0)) / X.std(0), torch.zeros(0)\n"
        "    for rows, targets in zip(scaled.split(batch), y.split(batch)):\n"
        "        errors = rows @ w - targets\n"
        "        losses = torch.cat([losses, (errors**2).mean().reshape(1)])\n"
        "        w = w - lr * rows.T @ errors / len(rows)\n"
        "    return w, losses",
        # each batch scaled by itself
        "def fast_epoch(X, y, w, lr=0.1, batch=16):\n"
        "    losses = []\n"
        "    for rows, targets in zip(X.split(batch), y.split(batch)):\n"
        "        rows = (rows - rows.mean(0)) / rows.std(0)\n"
        "        errors = rows @ w - targets\n"
        "        losses.append((errors**2).mean())\n"
        "        w = w - lr * rows.T @ errors / len(rows)\n"
        "    return w, torch.stack(losses)",
        # the caller's weights are changed
        "def fast_epoch(X, y, w, lr=0.1, batch=16):\n"
        "    scaled, losses = (X - X.mean(0)) / X.std(0), []\n"
        "    for rows, targets in zip(scaled.split(batch), y.split(batch)):\n"
        "        errors = rows @ w - targets\n"
        "        losses.append((errors**2).mean())\n"
        "        w -= lr * rows.T @ errors / len(rows)\n"
        "    return w, torch.stack(losses)",
    ],
}

ALSO_RIGHT = {
    "amdahl": [
        "def amdahl(parts):\n    return 1 / (1 - sum(s * (1 - 1 / f) for s, f in parts))",
        "def amdahl(parts):\n"
        "    left = 1.0\n"
        "    for share, factor in parts:\n"
        "        left -= share\n"
        "        left += share / factor\n"
        "    return 1 / left",
    ],
    "worker": [
        "def with_worker(batch_s, step_s, threads, cores):\n"
        "    spread = 0 if cores > threads else (batch_s + threads * step_s) / cores\n"
        "    return max(batch_s, step_s, spread)",
        "def with_worker(batch_s, step_s, threads, cores):\n"
        "    least = step_s\n"
        "    if threads >= cores:\n"
        "        least = step_s * threads / cores + batch_s / cores\n"
        "    if least < batch_s:\n"
        "        return batch_s\n"
        "    return least",
    ],
    "cumulative": [
        "def cumulative(steps):\n"
        "    import numpy as np\n"
        "    ratio, low, high = np.log(np.array(steps)).T\n"
        "    middle = ratio.sum()\n"
        "    below = np.sqrt(((ratio - low) ** 2).sum())\n"
        "    above = np.sqrt(((high - ratio) ** 2).sum())\n"
        "    return np.exp([middle, middle - below, middle + above])",
        "def cumulative(steps):\n"
        "    import math\n"
        "    ratio, below, above = 1.0, 0.0, 0.0\n"
        "    for middle, low, high in steps:\n"
        "        ratio *= middle\n"
        "        below += math.log(middle / low) ** 2\n"
        "        above += math.log(high / middle) ** 2\n"
        "    return [ratio, ratio / math.exp(below**0.5), ratio * math.exp(above**0.5)]",
    ],
    "epoch": [
        "def fast_epoch(X, y, w, lr=0.1, batch=16):\n"
        "    mean, std = X.mean(0), X.std(0)\n"
        "    losses = torch.empty(-(-len(X) // batch))\n"
        "    for i, start in enumerate(range(0, len(X), batch)):\n"
        "        rows = (X[start : start + batch] - mean) / std\n"
        "        errors = rows @ w - y[start : start + batch]\n"
        "        losses[i] = errors.square().mean()\n"
        "        w = w - lr * (rows * errors[:, None]).mean(0)\n"
        "    return w, losses",
        "def fast_epoch(X, y, w, lr=0.1, batch=16):\n"
        "    scaled, losses = (X - X.mean(0)) / X.std(0), []\n"
        "    for start in range(0, len(X), batch):\n"
        "        part = slice(start, start + batch)\n"
        "        errors = torch.mv(scaled[part], w).sub_(y[part])\n"
        "        losses.append(errors.dot(errors) / len(errors))\n"
        "        w = torch.addmv(w, scaled[part].T, errors, alpha=-lr / len(errors))\n"
        "    return w, torch.stack(losses)",
    ],
}
