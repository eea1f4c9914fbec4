"""Measuring in Jupyter: ``%load_ext d2lperf`` brings ``%%benchmark`` and ``%compare``."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from d2lperf.measuring.compare import compare
from d2lperf.stopwatch import Benchmark

# What %compare takes before the expressions: options with a value, and without one.
_OPTIONS = re.compile(
    r"""(\s* (?: --(?:budget|baseline|margin|rtol|atol|seed) (?:=|\s+) ("[^"]*"|'[^']*'|\S+)
               | --(?:no-check|isolated) ) (?=\s|$) )*""",
    re.VERBOSE,
)


def contenders(code: str, namespace: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """Return functions made of expressions, by name: ``a(); b()``, or one on each line.

    Each is compiled once and looks its names up in ``namespace`` when it is called. Its name is
    its own text, or what stands before a colon: ``fast: f(x)``.
    """
    code = code.strip()
    try:
        statements = ast.parse(code).body
    except SyntaxError as error:
        where = f"line {error.lineno}: {(error.text or code).strip()}"
        raise UsageError(f"%compare: this is not Python, {where} ({error.msg})") from None
    functions: dict[str, Callable[[], Any]] = {}
    for node in statements:
        name = ast.get_source_segment(code, node) or ""
        name = text = " ".join(name.split()) if "\n" in name else name
        if isinstance(node, ast.AnnAssign) and node.value is None and node.simple:
            expression, name = node.annotation, ast.unparse(node.target)
            if name in functions:
                raise UsageError(f"%compare: the name {name!r} is given twice")
        elif isinstance(node, ast.Expr):
            expression = node.value
        else:
            raise UsageError(f"%compare: {name!r} is a statement; put it into a function to call")
        copies = 1
        while name in functions:  # the same expression compared with itself
            copies += 1
            name = f"{text} ({copies})"
        body = ast.fix_missing_locations(ast.Expression(_called_later(expression)))
        functions[name] = eval(compile(body, f"<%compare {name}>", "eval"), namespace)
    if len(functions) < 2:
        raise UsageError(
            "%compare needs two expressions or more, such as %compare first() ; second(), but "
            f"found {', '.join(functions) or 'none'}"
        )
    return functions


def _called_later(expression: ast.expr) -> ast.Lambda:
    """The expression as a function without arguments."""
    nothing = ast.arguments([], [], None, [], [], None, [])
    return ast.Lambda(nothing, expression)


@magics_class
class D2lperfMagics(Magics):
    """The magics of d2lperf."""

    shell: InteractiveShell  # there as soon as the magics are registered

    @cell_magic
    def benchmark(self, line: str, cell: str) -> Any:
        """Run the cell and print how long it took: ``%%benchmark [description]``.

        What the cell assigns stays, what it prints and raises is shown, and its last expression is
        its result, as without this line.
        """
        shell = self.shell
        source = shell.transform_cell(cell)
        filename = shell.compile.cache(source)
        tree = shell.transform_ast(shell.compile.ast_parse(source, filename=filename))
        value: ast.expr = ast.Constant(None)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            value = last.value
            tree.body.pop()
        compiled: Any = shell.compile  # its type stubs know texts only
        first = compiled(tree, filename, "exec")
        shown = compiled(ast.fix_missing_locations(ast.Expression(value)), filename, "eval")
        with Benchmark(line.strip() or "Done"):
            exec(first, shell.user_global_ns, shell.user_ns)
            return eval(shown, shell.user_global_ns, shell.user_ns)

    @no_var_expand
    @magic_arguments()
    @argument("--budget", dest="budget_s", type=float, metavar="SECONDS", help="for everything")
    @argument("--baseline", type=lambda name: name.strip("\"'"), help="the one to compare with")
    @argument("--margin", type=float, help="a smaller difference does not count")
    @argument("--rtol", type=float, help="relative tolerance when the results are compared")
    @argument("--atol", type=float, help="absolute tolerance when the results are compared")
    @argument("--seed", type=int, help="of the random orders")
    @argument("--no-check", dest="check", action="store_false", help="do not compare the results")
    @argument("--isolated", action="store_true", help="a process of its own for each")
    @argument("expressions", nargs="*", help="separated by ; (with %%%%compare: or by lines)")
    @line_cell_magic
    def compare(self, line: str, cell: str | None = None) -> Any:
        """Tell which expression is faster: ``%compare a() ; b()``.

        The results are compared first. As ``%%compare`` it takes one expression on each line.
        ``name: expression`` gives an expression a shorter name. Returns the Comparison.
        """
        matched = _OPTIONS.match(line)
        options = matched.group() if matched else ""
        rest = line[len(options) :].strip()
        if re.match(r"--[a-zA-Z]", rest):
            unread = rest.split(";")[0].strip()
            raise UsageError(f"%compare: cannot read {unread!r}; %compare? lists the options")
        given = vars(parse_argstring(self.compare, options))
        del given["expressions"]
        functions = contenders(rest if cell is None else f"{rest}\n{cell}", self.shell.user_ns)
        return compare(functions, **given)


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """Add the magics to the shell."""
    ipython.register_magics(D2lperfMagics)
