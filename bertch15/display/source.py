"""Show a definition of the package on the page that teaches it.

The page shows the package's own text, so that what is read is what runs. It is shown as Markdown: the stored
output then depends on no highlighter, and a page that has parted from the package fails its check.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable

from IPython.display import Markdown


def source(*definitions: Callable | type) -> Markdown:
    """Show functions or classes of the package as one block of Python, docstrings cut to their first line."""
    for definition in definitions:
        if not (inspect.isfunction(definition) or inspect.isclass(definition)):
            raise ValueError(f"a definition must be a function or a class, got {definition!r}")
    text = "\n\n\n".join(brief_docstrings(textwrap.dedent(inspect.getsource(d))) for d in definitions)
    return Markdown(f"```python\n{text}\n```")


def brief_docstrings(text: str) -> str:
    """Cut each docstring of a source text to its first line; the rest stands in the package."""
    lines = text.splitlines()
    for node in reversed([n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.ClassDef)]):
        first = node.body[0]
        if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)):
            continue
        if isinstance(first.value.value, str) and first.end_lineno and first.end_lineno > first.lineno:
            lines[first.lineno - 1 : first.end_lineno] = [lines[first.lineno - 1].rstrip() + '"""']
    return "\n".join(lines)
