"""FLOPs of each kind of product, by multiplications written out; classes; places."""

import math

import pytest
import torch
from clocks import slow_clock
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from d2lperf.counting import OperationCounter, products
from d2lperf.counting.classes import MOVE, POINTWISE, PRODUCT, UNKNOWN
from d2lperf.counting.places import RecentlyUsed, bytes_of


def operations(fn, alone=False, clock=lambda: 0.0):
    counter = OperationCounter(clock, lambda: None)
    counter.alone = alone
    with counter:
        fn()
    return counter.operations


def the(fn, name):
    (found,) = [operation for operation in operations(fn) if operation.name == name]
    return found


def ones(*shape, dtype=torch.float32):
    return torch.ones(*shape, dtype=dtype)


# A multiplication and an addition for each of these triples (row, column, inner index).
M, K, N, B = 3, 5, 7, 2
PRODUCTS = {
    "mm": (lambda: ones(M, K) @ ones(K, N), 2 * M * K * N),
    "addmm": (lambda: torch.addmm(ones(N), ones(M, K), ones(K, N)), 2 * M * K * N),
    "addmm_": (lambda: ones(M, N).addmm_(ones(M, K), ones(K, N)), 2 * M * K * N),
    "mkldnn_linear": (
        lambda: functional.linear(ones(M, K).to_mkldnn(), ones(N, K), ones(N)),
        2 * M * K * N,
    ),
    "bmm": (lambda: torch.bmm(ones(B, M, K), ones(B, K, N)), 2 * B * M * K * N),
    "baddbmm": (lambda: torch.baddbmm(ones(N), ones(B, M, K), ones(B, K, N)), 2 * B * M * K * N),
    "baddbmm_": (
        lambda: ones(B, M, N).baddbmm_(ones(B, M, K), ones(B, K, N)),
        2 * B * M * K * N,
    ),
    "addbmm": (lambda: torch.addbmm(ones(M, N), ones(B, M, K), ones(B, K, N)), 2 * B * M * K * N),
    "addbmm_": (lambda: ones(M, N).addbmm_(ones(B, M, K), ones(B, K, N)), 2 * B * M * K * N),
    "mv": (lambda: ones(M, K) @ ones(K), 2 * M * K),
    "addmv": (lambda: torch.addmv(ones(M), ones(M, K), ones(K)), 2 * M * K),
    "addmv_": (lambda: ones(M).addmv_(ones(M, K), ones(K)), 2 * M * K),
    "dot": (lambda: ones(K) @ ones(K), 2 * K),
    "vdot": (
        lambda: torch.vdot(ones(K, dtype=torch.complex64), ones(K, dtype=torch.complex64)),
        4 * 2 * K,
    ),
    "addr": (lambda: torch.addr(ones(M, N), ones(M), ones(N)), 2 * M * N),
    "addr_": (lambda: ones(M, N).addr_(ones(M), ones(N)), 2 * M * N),
    "_int_mm": (
        lambda: torch._int_mm(ones(32, 32, dtype=torch.int8), ones(32, 32, dtype=torch.int8)),
        2 * 32**3,
    ),
    "_addmm_activation": (
        lambda: torch._addmm_activation(ones(N), ones(M, K), ones(K, N)),
        2 * M * K * N,
    ),
    # B results for each of M features, from K and N features: two multiplications, one addition
    "_trilinear": (
        lambda: functional.bilinear(ones(B, K), ones(B, N), ones(M, K, N)),
        3 * B * M * K * N,
    ),
    # each of the (9 - 3 + 1) ** 2 places: 4 channels from 3 channels of 3 x 3
    "convolution": (
        lambda: functional.conv2d(ones(B, 3, 9, 9), ones(4, 3, 3, 3)),
        2 * B * 7 * 7 * 4 * 3 * 9,
    ),
}


def test_every_formula_of_ours_is_tested():
    assert {*products._OWN, *products._IN_PLACE} <= {*PRODUCTS, "linear"}


def test_some_devices_have_linear_as_one_operation():
    linear = torch.ops.aten.linear.default  # on the CPU it is made of others
    assert products.product_flops(linear, (ones(M, K), ones(N, K)), {}, None) == 2 * M * K * N


@pytest.mark.parametrize("name", PRODUCTS)
def test_flops_of_a_product(name):
    if name == "mkldnn_linear" and not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    fn, flops = PRODUCTS[name]
    found = the(fn, name)
    assert (found.kind, found.flops) == (PRODUCT, flops)


def test_an_outer_product_is_one_multiplication_each():
    assert the(lambda: torch.outer(ones(M), ones(N)), "mul").flops == M * N


def test_flops_of_attention_and_of_its_backward():
    q = torch.ones(B, 4, 16, 8, requires_grad=True)
    one = 2 * B * 4 * 16 * 16 * 8  # a product of queries and keys
    found = operations(lambda: functional.scaled_dot_product_attention(q, q, q).sum().backward())
    flops = [op.flops for op in found if "attention" in op.name]
    assert flops == [2 * one, 5 * one]  # backward: scores again, and four gradients


ATTENTION, LAYER = nn.MultiheadAttention(8, 2), nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
COMPOSITE = {
    "matmul": lambda: ones(B, M, K) @ ones(K, N),
    "linear": lambda: functional.linear(ones(M, K), ones(N, K), ones(N)),
    "conv2d": lambda: functional.conv2d(ones(B, 3, 9, 9), ones(4, 3, 3, 3)),
    "bilinear": PRODUCTS["_trilinear"][0],
    "attention": lambda: ATTENTION(*[ones(5, B, 8)] * 3),
    "transformer layer": lambda: LAYER(ones(5, B, 8)),
}


@pytest.mark.parametrize("name", COMPOSITE)
def test_inference_mode_changes_no_count(name):
    """Without autograd torch dispatches `matmul`, `conv2d` and others whole."""
    fn = COMPOSITE[name]
    with torch.no_grad():
        expected = [(op.name, op.kind, op.flops, op.bytes) for op in operations(fn)]
    with torch.inference_mode():
        found = [(op.name, op.kind, op.flops, op.bytes) for op in operations(fn)]
    assert found == expected
    assert any(flops for _, _, flops, _ in found)


def test_a_composite_operation_leaves_no_time_outside():
    """The time between its parts is torch's, too."""
    readings = [0.0]

    def clock():
        readings.append(readings[-1] + 1)
        return readings[-1]

    counter, a, b = OperationCounter(clock, lambda: None), ones(B, M, K), ones(K, N)
    with torch.inference_mode(), counter:
        a @ b
    first_entered, last_left = readings[1], readings[-1]
    assert counter.inside_s == last_left - first_entered


def test_an_operation_with_a_kernel_of_its_own_stays_whole():
    """Torch could also make it of others, for devices that have none."""
    x = torch.ones(3, requires_grad=True)
    names = [op.name for op in operations(lambda: functional.silu(x).sum().backward())]
    assert "silu_backward" in names and "sigmoid" not in names


# ------------------------------------------------------------------------------------- classes


X = torch.rand(8, 8)
ROWS = torch.zeros(8, dtype=torch.long)


@pytest.mark.parametrize(
    "fn, functions, activations",
    [
        (lambda: X**2, 0, 0),
        (lambda: X**3, 0, 0),
        (lambda: X**2.5, 64, 0),
        (lambda: X**X, 64, 0),
        (lambda: torch.exp(X), 64, 0),
        (lambda: torch.log2(X), 64, 0),
        (lambda: functional.softplus(X), 64, 0),
        (lambda: torch.exp2(X), 0, 64),
        (lambda: functional.gelu(X), 0, 64),
        (lambda: torch.softmax(X, 1), 0, 64),
        (lambda: torch._foreach_sqrt([X, X.t()]), 128, 0),
        (lambda: torch.copysign(X, X), 0, 0),
    ],
)
def test_functions_have_their_class(fn, functions, activations):
    found = operations(fn)[-1]
    assert (found.functions, found.activations) == (functions, activations)
    assert found.flops == max(64, functions, activations)


@pytest.mark.parametrize(
    "fn, kind",
    [
        (lambda: X.index_add(0, ROWS, X), UNKNOWN),
        (lambda: X.scatter_add(0, ROWS.expand(8, 8), X), UNKNOWN),
        (lambda: X.sort(), UNKNOWN),
        (lambda: X.cumsum(0), UNKNOWN),
        (lambda: torch.rand(3), UNKNOWN),
        (lambda: X.clone().bernoulli_(0.5), UNKNOWN),
        (lambda: functional.max_pool2d(X[None], 2), UNKNOWN),
        (lambda: X.copysign(X), POINTWISE),
        (lambda: X[ROWS], MOVE),
        (lambda: X.clone(), MOVE),
        (lambda: torch.cat([X, X]), MOVE),
    ],
)
def test_kinds(fn, kind):
    assert operations(fn)[-1].kind == kind


def test_what_is_not_counted_is_timed_alone_on_its_own_inputs():
    total, clock = torch.zeros(8, 8), slow_clock(1.0).clock
    _, add = operations(lambda: total.clone().index_add_(0, ROWS, X), alone=True, clock=clock)
    assert (add.name, add.seconds) == ("index_add_", 1.0)
    operations(lambda: total.index_add_(0, ROWS, X), alone=True)
    assert total[0].tolist() == pytest.approx(X.sum(0).tolist())  # added once, not once a sample


# ------------------------------------------------------------------------------------- sparse


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_sparse_tensors(layout):
    sparse = torch.eye(8).to_sparse(layout=layout)
    found = operations(lambda: sparse @ X)
    assert [op.kind for op in found if "mm" in op.name] == [UNKNOWN]
    # eight values, eight indices of 8 bytes, and a second row of them or nine pointers
    assert bytes_of(sparse) == 8 * 4 + 8 * 8 + (64 if layout == torch.sparse_coo else 72)


def test_nested_tensors():
    """torch makes one of a padded batch, in nn.TransformerEncoder without gradients."""
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)
    padding = torch.tensor([[False, False, True]])
    with torch.no_grad():
        found = operations(lambda: encoder.eval()(ones(1, 3, 8), src_key_padding_mask=padding))
    assert "_transformer_encoder_layer_fwd" in [op.name for op in found if op.kind == UNKNOWN]


# ------------------------------------------------------------------------------------- places


def test_a_cache_holds_half_for_certain_and_the_whole_at_most():
    recent = RecentlyUsed(cache_bytes=100)
    assert recent.use(1, 100) == 0  # never seen
    assert recent.use(1, 100) == 1
    assert recent.use(2, 50) == 0
    assert recent.use(1, 100) == pytest.approx(0.5)  # 150 of 200 since
    assert recent.use(3, 100) == 0
    assert recent.use(2, 50) == 0


def test_a_result_reuses_what_was_used_before():
    recent = RecentlyUsed(cache_bytes=100)
    assert recent.use(1, 60, made=True) == 0
    assert recent.use(2, 60, made=True) == 1
    assert recent.use(3, 60, made=True) == pytest.approx(0.8)  # 120 of 200 are in use


@given(
    uses=st.lists(st.tuples(st.integers(1, 8), st.sampled_from([10, 40, 90]), st.booleans())),
    cache_bytes=st.sampled_from([100, 200]),
)
def test_a_use_finds_what_the_list_of_all_uses_says(uses, cache_bytes):
    """The oracle keeps every use, and counts each address between two uses once."""
    recent, past = RecentlyUsed(cache_bytes), []
    for where, size, made in uses:
        addresses = [address for address, _ in past]
        if where in addresses:
            last = len(addresses) - 1 - addresses[::-1].index(where)
            since = size + sum(dict(past[last + 1 :]).values())
        else:
            since = sum(dict(past).values()) if made and past else float("inf")
        part = min(1, max(0, 2 - since / cache_bytes))
        assert recent.use(where, size, made) == pytest.approx(part)
        past.append((where, size))


@pytest.mark.parametrize(
    "fn, access",
    [
        (lambda: X @ X[0], "one row"),
        (lambda: X[0] @ X, "one row"),
        (lambda: functional.linear(X[:1], X), "one row"),
        (lambda: torch.addmm(X[0], X[:1], X), "one row"),
        (lambda: X @ X, ""),
        (lambda: X.t().contiguous(), "transposed"),
        (lambda: X.clone(), ""),
        (lambda: X.view(2, 2, 16).transpose(0, 1).contiguous(), ""),
    ],
)
def test_ways_through_memory(fn, access):
    found = [op for op in operations(fn) if op.bytes]
    assert [op.access for op in found] == [access]


def test_an_expanded_tensor_counts_once():
    assert bytes_of(X[:1].expand(8, 8)) == 8 * 4
    assert math.prod(X.shape) * 4 == bytes_of(X)
