"""Internal names of torch and of Python: each one that goes is named, with what we use it for."""

import ast
import datetime
import linecache
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest
import torch
import torch.distributed as dist
from fresh import run_fresh

from d2lperf import _compat

PACKAGE = Path(_compat.__file__).parent
# Of named tuples; documented by torch; documented by Python.
PUBLIC = {"_fields", "_replace", "_asdict", "_dynamo", "_exit"}


@pytest.mark.parametrize("name", _compat.PRIVATE)
def test_a_name_that_we_rely_on_is_there(name):
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        versions = f"torch {torch.__version__}, Python {sys.version.split()[0]}"
        pytest.fail(f"{name} is gone ({versions}). We use it because {_compat.PRIVATE[name]}.")


def test_what_only_some_builds_have_is_done_without(monkeypatch):
    assert list(_compat.OPTIONAL) == ["torch._C:_cuda_hasPrimaryContext"]
    monkeypatch.setattr(torch._C, "_cuda_hasPrimaryContext", lambda i: i == 1, raising=False)
    assert [_compat.has_context(i) for i in range(3)] == [False, True, False]
    monkeypatch.delattr(torch._C, "_cuda_hasPrimaryContext")
    assert _compat.has_context(0)


def names_defined(tree):
    """Functions, classes and attributes that a file defines."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def names_used(tree):
    """Attributes, and what is imported from others, that begin with an underscore or are listed."""
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    found = {node.attr for node in attributes}
    listed = {name.replace(":", ".") for name in _compat.PRIVATE} | {"kineto_results"}
    written = found | {ast.unparse(node) for node in attributes}
    found |= {f"_{name}, which is documented nowhere" for name in listed & written}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.module.startswith("d2lperf"):
            found |= {alias.name for alias in node.names} | set(node.module.split("."))
            listed = {a.name for a in node.names if f"{node.module}:{a.name}" in _compat.PRIVATE}
            found |= {f"_{name}, which is documented nowhere" for name in listed}
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def test_no_other_file_uses_internal_names_of_others():
    paths = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    trees = {file: ast.parse(path.read_text(encoding="utf-8")) for file, path in paths.items()}
    own = set().union(*map(names_defined, trees.values())) | PUBLIC
    used = {(file, name) for file in trees for name in names_used(trees[file]) - own}
    used = {(file, name) for file, name in used if file != "_compat.py"}
    assert not used, "they belong into _compat.py, each with its reason"


@pytest.mark.parametrize("code", ["linecache.cache", "p.profiler.kineto_results", "x._private"])
def test_a_use_of_an_internal_name_is_found(code):
    assert [name for name in names_used(ast.parse(code)) if name.startswith("_")]


# --------------------------------------------------------------------------- what they do


def raised():
    raise RuntimeError("own")


def from_a_call():
    return torch.ones(2) @ torch.ones(3)


def after_a_call():
    int("1")
    if True:
        raise RuntimeError("own")


@pytest.mark.parametrize(
    ("function", "own"), [(raised, True), (from_a_call, False), (after_a_call, True)]
)
def test_a_raise_is_told_from_an_error_in_a_call(function, own):
    with pytest.raises(RuntimeError) as caught:
        function()
    place = caught.value.__traceback__
    while place.tb_next is not None:
        place = place.tb_next
    assert _compat.stopped_at_raise(place) is own


def test_the_timeout_and_the_store_of_groups(tmp_path, monkeypatch):
    from torch.distributed import distributed_c10d

    for name in ("default_pg_timeout", "default_pg_nccl_timeout"):
        monkeypatch.setattr(distributed_c10d, name, getattr(distributed_c10d, name))
    _compat.set_default_timeout(datetime.timedelta(seconds=7))
    assert distributed_c10d.default_pg_timeout.total_seconds() == 7
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        _compat.default_store().set("key", "value")
        _compat.wait_for_ranks(store, 1, "d2lperf/test", 5)
    finally:
        dist.destroy_process_group()


def test_an_operation_tells_what_it_overwrites_and_its_flops():
    aten = torch.ops.aten
    (written,) = (a for a in _compat.arguments_of(aten.add_.Tensor) if a.alias_info)
    assert (written.name, written.alias_info.is_write) == ("self", True)
    assert [a.name for a in _compat.arguments_of(aten.mm.out) if a.is_out] == ["out"]
    a, b = torch.ones(2, 3), torch.ones(3, 5)
    assert _compat.flop_formula(aten.mm)(a, b, out_val=a @ b) == 2 * 2 * 3 * 5
    assert _compat.flop_formula(aten.add) is None


def test_a_composite_operation_is_told_and_run_as_its_parts():
    aten, x = torch.ops.aten, torch.ones(2, 2)
    assert _compat.is_composite(aten.matmul.default, (x, x), {})
    assert not _compat.is_composite(aten.mm.default, (x, x), {})
    assert not _compat.is_composite(torch.ops.prim.device.default, (x,), {})
    assert not _compat.is_composite(aten.silu_backward.default, (x, x), {})  # has both
    nested = torch.nested.nested_tensor([x])
    assert not _compat.is_composite(aten.matmul.default, (nested, nested), {})
    assert torch.equal(_compat.run_composed(aten.matmul.default, (x, x), {}), x @ x)


def test_a_profiler_gives_its_raw_events():
    with torch.profiler.profile() as profiler:
        torch.ones(2)
    assert "aten::ones" in {event.name() for event in _compat.raw_events(profiler)}


def test_sources_of_cells_are_those_of_no_file(monkeypatch):
    entry = (3, 1.0, ["x"], "cell")
    monkeypatch.setattr(linecache, "cache", {"cell": entry, __file__: entry})
    assert _compat.sources_of_cells() == {"cell": (3, None, ["x"], "cell")}
    _compat.add_sources({"other": entry})
    assert linecache.getline("other", 1) == "x"


def test_a_tensor_counts_its_changes():
    x = torch.zeros(2)
    before = _compat.changes_of(x)
    with torch.inference_mode():
        x[1:].add_(1)
    assert _compat.changes_of(x) == before + 1


def test_plain_calls_do_not_ask_a_subclass():
    class Refuses(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise AssertionError

    tensor = torch.ones(2).as_subclass(Refuses)
    with _compat.plain_calls():
        assert torch.Tensor.sum(tensor).item() == 2
    with pytest.raises(AssertionError):
        torch.Tensor.sum(tensor)


def test_the_list_names_all_that_the_file_uses():
    text = (PACKAGE / "_compat.py").read_text(encoding="utf-8")
    code = text[text.index("def forget_exit_functions") :]
    used = {node.attr for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Attribute)}
    listed = {name.rpartition(":")[2].rpartition(".")[2] for name in _compat.PRIVATE}
    assert {name for name in used if name.startswith("_")} <= listed | {"_C"}


def test_exit_functions_are_forgotten_and_run():
    program = """
import atexit, weakref
from d2lperf import _compat
class Thing: pass
before, after = Thing(), Thing()
weakref.finalize(before, print, "finalizer of the server")
atexit.register(print, "at the end of the server")
_compat.forget_exit_functions()
weakref.finalize(after, print, "finalizer of the worker")
atexit.register(print, "at the end of the worker")
_compat.run_exit_functions()
"""
    done = run_fresh(program)
    said = done.stdout.splitlines()
    assert "at the end of the worker" in said and "finalizer of the worker" in said, done.stderr
    assert "at the end of the server" not in said


def test_int8_products_are_summed_in_int32():
    a = torch.full((32, 32), 100, dtype=torch.int8)
    product = _compat.int8_product()(a, a)
    assert product.dtype == torch.int32 and product.unique().tolist() == [320_000]
