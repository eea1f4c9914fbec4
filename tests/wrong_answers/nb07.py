"""Wrong answers to the exercises of notebook 07: each must be found out, with a reason."""

WRONG = {
    "epoch": [
        # the minibatch has not grown
        "def epoch(X, y, params, k, b, lr, train_batch):\n"
        "    used = [devices[i % len(devices)] for i in range(k)]\n"
        "    copies, updates = [get_params(params, device) for device in used], 0\n"
        "    for part in zip(X.split(b), y.split(b)):\n"
        "        train_batch(*part, copies, used, lr)\n"
        "        updates += 1\n"
        "    return copies[0], updates",
        # the last, smaller one is dropped
        "def epoch(X, y, params, k, b, lr, train_batch):\n"
        "    used = [devices[i % len(devices)] for i in range(k)]\n"
        "    copies, updates = [get_params(params, device) for device in used], 0\n"
        "    for X_part, y_part in zip(X.split(k * b), y.split(k * b)):\n"
        "        if len(X_part) == k * b:\n"
        "            train_batch(X_part, y_part, copies, used, lr)\n"
        "            updates += 1\n"
        "    return copies[0], updates",
        # the learning rate has grown as well, which was not asked
        "def epoch(X, y, params, k, b, lr, train_batch):\n"
        "    used = [devices[i % len(devices)] for i in range(k)]\n"
        "    copies, updates = [get_params(params, device) for device in used], 0\n"
        "    for part in zip(X.split(k * b), y.split(k * b)):\n"
        "        train_batch(*part, copies, used, k * lr)\n"
        "        updates += 1\n"
        "    return copies[0], updates",
        # every minibatch is counted, but only the first device's images are learnt from
        "def epoch(X, y, params, k, b, lr, train_batch):\n"
        "    used = [devices[i % len(devices)] for i in range(k)]\n"
        "    copies, updates = [get_params(params, device) for device in used], 0\n"
        "    for X_part, y_part in zip(X.split(k * b), y.split(k * b)):\n"
        "        train_batch(X_part[:b], y_part[:b], copies[:1], used[:1], lr)\n"
        "        updates += 1\n"
        "    return copies[0], updates",
        # the parameters that were given are trained themselves
        "def epoch(X, y, params, k, b, lr, train_batch):\n"
        "    params = [p.requires_grad_() for p in params]\n"
        "    updates = 0\n"
        "    for part in zip(X.split(k * b), y.split(k * b)):\n"
        "        train_batch(*part, [params], devices[:1], lr)\n"
        "        updates += 1\n"
        "    return params, updates",
        # one device does it all
        "def epoch(X, y, params, k, b, lr, train_batch):\n"
        "    copy, updates = get_params(params, devices[0]), 0\n"
        "    for part in zip(X.split(k * b), y.split(k * b)):\n"
        "        train_batch(*part, [copy], devices[:1], lr)\n"
        "        updates += 1\n"
        "    return copy, updates",
        # as many devices, but only one copy, which gets every update k times
        "def epoch(X, y, params, k, b, lr, train_batch):\n"
        "    used = [devices[i % len(devices)] for i in range(k)]\n"
        "    copies, updates = [get_params(params, used[0])] * k, 0\n"
        "    for part in zip(X.split(k * b), y.split(k * b)):\n"
        "        train_batch(*part, copies, used, lr)\n"
        "        updates += 1\n"
        "    return copies[0], updates",
        # no count
        "def epoch(X, y, params, k, b, lr, train_batch):\n"
        "    used = [devices[i % len(devices)] for i in range(k)]\n"
        "    copies = [get_params(params, device) for device in used]\n"
        "    for part in zip(X.split(k * b), y.split(k * b)):\n"
        "        train_batch(*part, copies, used, lr)\n"
        "    return copies[0]",
    ],
    "best_rates": [
        # nan may win
        "def best_rates(train, ks, rates, b):\n"
        "    return {k: max(sorted(rates), key=lambda lr: train(k, k * b, lr)) for k in ks}",
        # the batch does not grow
        "def best_rates(train, ks, rates, b):\n"
        "    return {k: max(rates, key=lambda lr: train(k, b, lr)) for k in ks}",
        # the rule is believed, not tried
        "def best_rates(train, ks, rates, b):\n    return {k: 0.1 * k for k in ks}",
        # of equally good ones the largest
        "def best_rates(train, ks, rates, b):\n"
        "    best = {}\n"
        "    for k in ks:\n"
        "        found = {lr: train(k, k * b, lr) for lr in sorted(rates, reverse=True)}\n"
        "        found = {lr: a for lr, a in found.items() if a == a}\n"
        "        best[k] = max(found, key=found.get)\n"
        "    return best",
        # the worst
        "def best_rates(train, ks, rates, b):\n"
        "    best = {}\n"
        "    for k in ks:\n"
        "        found = {lr: train(k, k * b, lr) for lr in sorted(rates)}\n"
        "        found = {lr: a for lr, a in found.items() if a == a}\n"
        "        best[k] = min(found, key=found.get)\n"
        "    return best",
    ],
    "accuracy_on": [
        # a mean of means
        "@torch.no_grad()\n"
        "def accuracy_on(net, X, y, device_params, devices):\n"
        "    used = devices[: len(X)]\n"
        "    parts = zip(*split_batch(X, y, used), device_params)\n"
        "    shares = [(net(a, p).argmax(1) == b).double().mean().item() for a, b, p in parts]\n"
        "    return sum(shares) / len(shares)",
        # the first device alone
        "@torch.no_grad()\n"
        "def accuracy_on(net, X, y, device_params, devices):\n"
        "    return (net(X, device_params[0]).argmax(1) == y).sum().item() / len(y)",
        # what does not divide evenly is left out
        "@torch.no_grad()\n"
        "def accuracy_on(net, X, y, device_params, devices):\n"
        "    k = min(len(devices), len(X))\n"
        "    m = len(X) // k\n"
        "    X, y = X[: m * k].split(m), y[: m * k].split(m)\n"
        "    right = [(net(a, p).argmax(1) == b).sum() for a, b, p in zip(X, y, device_params)]\n"
        "    return sum(r.item() for r in right) / (m * k)",
        # a graph for a backward pass that never comes
        "def accuracy_on(net, X, y, device_params, devices):\n"
        "    parts = zip(*split_batch(X, y, devices[: len(X)]), device_params)\n"
        "    return sum((net(a, p).argmax(1) == b).sum().item() for a, b, p in parts) / len(y)",
        # not a share
        """\
@torch.no_grad()
def accuracy_on(net, X, y, device_params, devices):
    used = devices[: len(X)]
    parts = zip(*split_batch(X, y, used), device_params)
    return sum((net(a, p).argmax(1) == b).sum().item() for a, b, p in parts)
""",
    ],
    "loss_factor": [
        # forgets that the library divides by k
        "def loss_factor(own, sizes):\n    return own / sum(sizes)",
        # no weights at all
        "def loss_factor(own, sizes):\n    return 1.0",
        # the wrong way round
        "def loss_factor(own, sizes):\n    return sum(sizes) / (len(sizes) * max(own, 1))",
        # sums instead of means
        "def loss_factor(own, sizes):\n    return own",
    ],
}

ALSO_RIGHT = {
    "epoch": [
        # by indices, and a list
        """\
def epoch(X, y, params, k, b, lr, train_batch):
    used = (devices * k)[:k]
    copies = [get_params(params, device) for device in used]
    starts = range(0, len(X), k * b)
    for i in starts:
        train_batch(X[i : i + k * b], y[i : i + k * b], copies, used, lr)
    return [copies[0], len(starts)]
""",
        # with a loader
        """\
def epoch(X, y, params, k, b, lr, train_batch):
    from torch.utils.data import DataLoader, TensorDataset

    used = [devices[i % len(devices)] for i in range(k)]
    copies = [get_params(params, device) for device in used]
    updates = torch.tensor(0)
    for X_part, y_part in DataLoader(TensorDataset(X, y), k * b):
        train_batch(X_part, y_part, copies, used, lr)
        updates += 1
    return copies[0], updates
""",
    ],
    "best_rates": [
        # the best so far
        """\
def best_rates(train, ks, rates, b):
    best = {}
    for k in ks:
        highest = -1.0
        for lr in sorted(rates):
            accuracy = train(k, k * b, lr)
            if accuracy > highest:
                highest, best[k] = accuracy, lr
    return best
""",
        # an array
        """\
def best_rates(train, ks, rates, b):
    import numpy as np

    rates = np.sort(rates)
    return {k: rates[np.nanargmax([train(k, k * b, float(lr)) for lr in rates])] for k in ks}
""",
    ],
    "accuracy_on": [
        # a device without images adds nothing
        """\
@torch.no_grad()
def accuracy_on(net, X, y, device_params, devices):
    parts = zip(*split_batch(X, y, devices), device_params)
    return sum((net(a, p).argmax(1) == b).sum().item() for a, b, p in parts) / len(y)
""",
        # every k-th image, and a tensor
        """\
def accuracy_on(net, X, y, device_params, devices):
    k, right = min(len(devices), len(X)), 0
    with torch.no_grad():
        for i in range(k):
            answers = net(X[i::k].to(devices[i]), device_params[i]).argmax(1)
            right = right + (answers.cpu() == y[i::k]).sum()
    return right / len(y)
""",
    ],
    "loss_factor": [
        # relative to the mean size
        """\
def loss_factor(own, sizes):
    return own / (sum(sizes) / len(sizes))
""",
        # in single precision
        """\
def loss_factor(own, sizes):
    return torch.tensor(own) / torch.tensor(sizes, dtype=torch.float32).mean()
""",
    ],
}
