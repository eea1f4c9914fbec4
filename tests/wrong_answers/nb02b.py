"""Wrong answers to the exercises of notebook 02b: each must be found out, with a reason."""

WRONG = {
    "hybridise": [
        # Python still runs every layer
        "def hybridise(net, x):\n    return net",
        # a wrapper takes nothing out
        "def hybridise(net, x):\n    return lambda z: nn.Sequential(net)(z)",
        # the answer to the example, for ever
        "def hybridise(net, x):\n    y = net(x)\n    return lambda z: y",
        # other weights
        "def hybridise(net, x):\n    return torch.jit.script(get_lenet())",
        # the batch of the example is baked in
        "def hybridise(net, x):\n"
        "    n = len(x)\n"
        "    return torch.jit.trace(lambda z: net(z[:n]), x)",
        # so it is by torch.export
        "def hybridise(net, x):\n    return torch.export.export(net, (x,)).module()",
    ],
    "conversions": [
        # the folklore: every .numpy() breaks a graph
        'outcomes = {("numpy", "trace"): "baked in", ("numpy", "script"): "refused",\n'
        '           ("numpy", "compile"): "right, with a break", ("item", "trace"): "baked in",\n'
        '           ("item", "script"): "right, in one graph",\n'
        '           ("item", "compile"): "right, with a break"}',
        # trust in traces
        'outcomes = {(c, t): "right, in one graph" for c in ("numpy", "item")\n'
        '           for t in ("trace", "script", "compile")}',
        # half of it
        'outcomes = {("numpy", "trace"): "baked in"}',
        # a word of one's own
        'outcomes = {(c, t): "works" for c in ("numpy", "item")\n'
        '           for t in ("trace", "script", "compile")}',
    ],
    "branch": [
        # breaks the graph
        "def flip_whole(x):\n    return flip(x)",
        # so does a number in Python's hands
        "def flip_whole(x):\n    return x * (1 if x.sum().item() > 0 else -1)",
        # decides for each number by itself
        "def flip_whole(x):\n    return torch.where(x > 0, x, -x)",
        # the sign of 0 is 0
        "def flip_whole(x):\n    return x * torch.sign(x.sum())",
    ],
    "mean_once": [
        # the loop over the batch is unrolled, for each size anew
        "def mean_once(backend):\n"
        "    return torch.compile(slow_mean, backend=backend, dynamic=True)",
        # the first size is taken as a fact
        "def mean_once(backend):\n"
        "    return torch.compile(lambda x: x.sum(0) / x.shape[0], backend=backend)",
        # not compiled
        "def mean_once(backend):\n    return lambda x: x.mean(0)",
        # the mean over the features
        "def mean_once(backend):\n"
        "    return torch.compile(lambda x: x.mean(1), backend=backend, dynamic=True)",
        # the second size is not compiled any more
        """\
def mean_once(backend):
    compiled = torch.compile(lambda x: x.sum(0) / x.shape[0], backend=backend, dynamic=False)

    def mean(x):
        with torch._dynamo.config.patch(recompile_limit=1):
            return compiled(x)

    return mean
""",
    ],
}

ALSO_RIGHT = {
    "hybridise": [
        # named in the answer's text
        "def hybridise(net, x):\n    return torch.jit.script(net)",
        "def hybridise(net, x):\n"
        '    batch = ({0: torch.export.Dim("batch")},)\n'
        "    return torch.export.export(net, (x,), dynamic_shapes=batch).module()",
    ],
    "conversions": [
        # by tool
        """\
outcomes = {(c, "trace"): "baked in" for c in ("numpy", "item")}
outcomes["numpy", "script"] = "refused"
outcomes["item", "compile"] = "right, with a break"
for key in (("numpy", "compile"), ("item", "script")):
    outcomes[key] = "right, in one graph"
""",
        """\
words = ["baked in", "refused", "right, in one graph"]
words += ["baked in", "right, in one graph", "right, with a break"]
keys = [(c, t) for c in ("numpy", "item") for t in ("trace", "script", "compile")]
outcomes = dict(zip(keys, words))
""",
    ],
    "branch": [
        # the same: one side only is computed
        "def flip_whole(x):\n"
        "    return torch.cond(x.sum() > 0, lambda x: x.clone(), lambda x: -x, (x,))",
        """\
def flip_whole(x):
    return x * (2 * (x.sum() > 0) - 1)
""",
    ],
    "mean_once": [
        """\
def mean_once(backend):
    return torch.compile(lambda x: x.mean(0), backend=backend, dynamic=True)
""",
        # only the batch is marked
        """\
def mean_once(backend):
    compiled = torch.compile(lambda x: torch.mean(x, dim=0), backend=backend)

    def mean(x):
        torch._dynamo.mark_dynamic(x, 0)
        return compiled(x)

    return mean
""",
    ],
}
