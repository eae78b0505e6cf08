"""Notes of the numbers that a page formats, before they are rounded: for `make portable` (see sitecustomize.py).

An f-string, a `"...".format(...)` and a `round(...)` whose value is a float get a line in the file BERTCH15_NOTES:
the code cell, the place in the source, the format, and the value in full. So does a float that a cell compares
with a number, as in `gap < 5e-6`: what it prints may turn there.
"""

import ast
import builtins
import json
import os
import string
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any


def as_float(value: Any) -> float | None:
    """Give a float, or a tensor or numpy scalar of one, as a float; None for anything else."""
    if isinstance(value, float):
        return float(value)
    kind = getattr(value, "dtype", None)
    if kind is not None and getattr(value, "ndim", 1) == 0 and "float" in str(kind):
        return float(value.item())  # float(tensor) warns of a gradient
    return None


class Notebook:
    """The notes of this process. cell: the number of the code cell that is running, 0 before the first."""

    def __init__(self, path: str) -> None:
        self.path, self.cell = path, 0

    def next_cell(self, info: Any) -> None:
        """Count a cell that begins to run; what runs beside the page keeps no history."""
        self.cell += info.store_history

    def note(self, value: Any, form: str, where: str) -> Any:
        """Write one line if the value is a float; give the value as it came."""
        number = as_float(value)
        if number is not None and self.cell:
            line = json.dumps({"cell": self.cell, "where": where, "form": form, "value": number})
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(line + "\n")
        return value

    def format(self, template: str, where: str, *args: Any, **kwargs: Any) -> str:
        """Do what `template.format(...)` does, with notes."""
        return _Formatter(self, where).vformat(template, args, kwargs)

    def round(self, where: str, value: Any, *digits: Any) -> Any:
        """Do what `round(...)` does, with a note."""
        if digits and isinstance(digits[0], int):
            self.note(value, f".{max(0, digits[0])}f", where)
        return round(value, *digits)


class _Formatter(string.Formatter):
    """str.format, but that each field is noted."""

    def __init__(self, notes: Notebook, where: str) -> None:
        self.notes, self.where = notes, where

    def format_field(self, value: Any, format_spec: str) -> str:
        return format(self.notes.note(value, format_spec, self.where), format_spec)


class Noting(ast.NodeTransformer):
    """Puts a call of the notes around each value that a piece of source formats."""

    def __init__(self, name: str) -> None:
        self.name, self.line = name, 0

    def visit(self, node: ast.AST) -> Any:
        """Keep the line on which a statement begins: Pythons differ on the lines inside it."""
        before = self.line
        self.line = node.lineno if isinstance(node, ast.stmt) else self.line
        visited = super().visit(node)
        self.line = before
        return visited

    def call(self, node: ast.AST, what: str, *arguments: ast.expr, **named: Any) -> ast.expr:
        """Make a call of the notes' method `what`, at the place of a node."""
        notes = ast.Attribute(ast.Name("__notes__", ast.Load()), what, ast.Load())
        made = ast.Call(notes, list(arguments), named.get("keywords", []))
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def where(self) -> ast.expr:
        """Name the place of the statement that is looked at."""
        return ast.Constant(f"{self.name}:{self.line}")

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        """Note a field of an f-string."""
        self.generic_visit(node)
        if node.conversion == -1:
            form = node.format_spec or ast.Constant("")
            node.value = self.call(node, "note", node.value, form, self.where())
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Note what a cell compares with a number."""
        self.generic_visit(node)
        if self.name == "cell":
            operands = [node.left, *node.comparators]
            for place, operand in enumerate(operands):
                for beside in (operands[place - 1 : place] or []) + operands[place + 1 : place + 2]:
                    bound = written_number(beside)
                    if bound is not None and written_number(operand) is None:
                        form = ast.Constant(f"against {bound!r}")
                        operand = self.call(node, "note", operand, form, self.where())
                operands[place] = operand
            node.left, node.comparators = operands[0], operands[1:]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Note what `"...".format(...)` and `round(...)` are given."""
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(ast.Constant(str()) as template, "format"):
                return self.call(node, "format", template, self.where(), *node.args, keywords=node.keywords)
            case ast.Name("round") if not node.keywords:
                return self.call(node, "round", self.where(), *node.args)
        return node


def written_number(node: ast.expr) -> float | None:
    """Give the number that a piece of source writes out; None if it is none."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    return float(value) if type(value) in (int, float) else None


class NotingLoader(SourceFileLoader):
    """Loads a module of the package with notes; what `inspect` shows of it is the source as it stands."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source anew: what Python keeps compiled has no notes."""
        path = self.get_filename(fullname)
        tree = Noting(fullname).visit(ast.parse(self.get_data(path)))
        return compile(tree, path, "exec", dont_inherit=True)


NOTES = Notebook(os.environ.get("BERTCH15_NOTES", ""))
builtins.__notes__ = NOTES  # type: ignore[attr-defined]


def begin() -> None:
    """Take notes of the cells of this kernel from now on."""
    shell = sys.modules["IPython"].get_ipython()
    shell.events.register("pre_run_cell", NOTES.next_cell)
    shell.ast_transformers.append(Noting("cell"))
