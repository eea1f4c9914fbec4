"""Wrong answers to the exercises of notebook 10b: each must be found out, with a reason."""

WRONG = {
    "fixed": [
        # rates instead of times
        "def fixed_cost(first, second):\n"
        "    (n, rate_n), (m, rate_m) = first, second\n"
        "    each = (rate_m - rate_n) / (m - n)\n"
        "    return rate_n - n * each, each",
        # no fixed time
        "def fixed_cost(first, second):\n    return 0.0, 1 / second[1]",
        # the time of a token from the larger step alone
        "def fixed_cost(first, second):\n"
        "    each_s = 1 / max(first, second)[1]\n"
        "    return first[0] / first[1] - first[0] * each_s, each_s",
        # the fixed time spread over the tokens
        "def fixed_cost(first, second):\n"
        "    (n, rate_n), (m, rate_m) = first, second\n"
        "    each_s = (m / rate_m - n / rate_n) / (m - n)\n"
        "    return (n / rate_n - n * each_s) / n, each_s",
    ],
    "bounds": [
        # each device has a part of the rows
        "def bounds(compute_s, reduce_s, devices):\n"
        "    sent_s = reduce_s * 2 * (devices - 1) / devices\n"
        "    share_s = compute_s / devices\n"
        "    return compute_s / (share_s + sent_s), compute_s / max(share_s, sent_s)",
        # the all-reduce does not depend on the devices
        "def bounds(compute_s, reduce_s, devices):\n"
        "    work = devices * compute_s\n"
        "    return work / (compute_s + reduce_s), work / max(compute_s, reduce_s)",
        # full overlap hides everything
        "def bounds(compute_s, reduce_s, devices):\n"
        "    sent_s = reduce_s * 2 * (devices - 1) / devices\n"
        "    return devices * compute_s / (compute_s + sent_s), devices",
        # the other order
        "def bounds(compute_s, reduce_s, devices):\n"
        "    sent_s = reduce_s * 2 * (devices - 1) / devices\n"
        "    work = devices * compute_s\n"
        "    return work / max(compute_s, sent_s), work / (compute_s + sent_s)",
    ],
}

ALSO_RIGHT = {
    "fixed": [
        "def fixed_cost(first, second):\n"
        "    import numpy as np\n"
        "    tokens = np.array([[1, first[0]], [1, second[0]]])\n"
        "    times = np.array([first[0] / first[1], second[0] / second[1]])\n"
        "    return np.linalg.solve(tokens, times)",
        "def fixed_cost(first, second):\n"
        "    (n, a), (m, b) = first, second\n"
        "    first_s, second_s = n / a, m / b\n"
        "    fixed_s = (m * first_s - n * second_s) / (m - n)\n"
        "    return [fixed_s, (first_s - fixed_s) / n]",
    ],
    "bounds": [
        "def bounds(compute_s, reduce_s, devices):\n"
        "    sent_s = reduce_s * (2 - 2 / devices)\n"
        "    steps = torch.tensor([compute_s + sent_s, max(compute_s, sent_s)])\n"
        "    return devices * compute_s / steps",
        "def bounds(compute_s, reduce_s, devices):\n"
        "    relative = 2 * reduce_s * (devices - 1) / (devices * compute_s)\n"
        "    return devices / (1 + relative), min(devices, devices / relative)",
    ],
}
