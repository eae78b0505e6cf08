"""Build the static edition of the book: `make html` writes build/html, from the outputs that the notebooks store.

Nothing is executed. The pages hold no script and ask for nothing from a network: formulas become MathML, which
browsers set by themselves, and the font for them lies beside the pages. A first argument names another folder.
"""

import html
import re
import shutil
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import nbformat
from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from pygments.formatters import HtmlFormatter

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NOTEBOOKS, EDITION = ROOT / "notebooks", ROOT / "build" / "html"
FONT = "STIXTwoMath-Regular.ttf"
UNKNOWN_COMMAND = re.compile(r">[^<]*\\[^<]*<")  # latex2mathml passes on what it does not know
LATEX_REPAIRS = {
    r"\\mathrm\{([A-Za-z]{2,})\}": r"\\text{\1}",  # a word, not a row of upright letters
    r"(\d+)\{,\}(\d{3})": r"\\text{\1,\2}",  # a number with its thousands apart, not a list
}
MATHML_REPAIRS = {
    r"negativethinmathspace": "-0.167em",  # browsers no longer know the name
    r"<mo>&#x0221E;</mo>": "<mi>&#x221E;</mi>",  # infinity is no operator
    r"<mo>([A-Za-z]+)</mo>": r'<mo lspace="0" rspace="0.167em">\1</mo>',  # a function needs no wide gaps
    r'fence="true" minsize': 'fence="true" lspace="0" rspace="0" minsize',  # nor do large brackets
}


class Page(NamedTuple):
    """One page of the edition: its file's stem, its title, its notebook, and the folder that links start from."""

    name: str
    title: str
    folder: Path
    notebook: NotebookNode


def mathml(formula: str, display: str) -> str:
    """Give a LaTeX formula as MathML, `inline` or as a `block`. Raises ValueError for an unknown command."""
    for pattern, repaired in LATEX_REPAIRS.items():
        formula = re.sub(pattern, repaired, formula)
    converted = convert(formula, display=display)
    if UNKNOWN_COMMAND.search(converted):
        raise ValueError(f"the formula {formula!r} has a command that latex2mathml does not know")
    for pattern, repaired in MATHML_REPAIRS.items():
        converted = re.sub(pattern, repaired, converted)
    return converted


def scrolling(element: str) -> str:
    """Let a wide element be scrolled by itself, with the keyboard too, so that the page never is."""
    return f'<div class="wide" tabindex="0">{element}</div>\n'


def name_of(notebook: Path) -> str:
    """Name a notebook's page: the edition is one flat folder, in which exercises are called so."""
    return f"exercise_{notebook.stem}" if notebook.parent.name == "exercises" else notebook.stem


class PageRenderer(IPythonRenderer):
    """Markdown of a notebook as HTML of the edition: pages link to pages, formulas are MathML.

    folder: where the notebook lies that the links start from.
    """

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(**options)
        self.folder = folder

    def link(self, text: str, url: str, title: str | None = None) -> str:
        """Lead a link to a notebook to its page."""
        target = re.fullmatch(r"(?P<path>[\w./-]+\.ipynb)(?P<place>#.*)?", url)
        if target:
            url = f"{name_of((self.folder / target['path']).resolve())}.html{target['place'] or ''}"
        return super().link(text, url, title)

    def heading(self, text: str, level: int, **attributes: object) -> str:
        """Name a heading as JupyterLab does, so that links to it hold in both."""
        words = html.unescape(re.sub("<[^>]*>", "", text))
        return f'<h{level} id="{html.escape(words.replace(" ", "-"))}">{text}</h{level}>\n'

    def table(self, text: str) -> str:
        """Let a table be scrolled."""
        return scrolling(f"<table>\n{text}</table>")

    def inline_math(self, body: str) -> str:
        """Set a formula in the line."""
        return mathml(body, "inline")

    def block_math(self, body: str) -> str:
        """Set a formula on a line of its own."""
        return scrolling(mathml(body, "block"))


class Article(HTMLExporter):
    """The cells of a notebook as HTML, without a page round them."""

    folder = NOTEBOOKS

    @pass_context
    def markdown2html(self, context: Context, source: str) -> str:
        """Render Markdown by the edition's own renderer."""
        attachments = context.get("cell", {}).get("attachments", {})
        return MarkdownWithMath(PageRenderer(self.folder, escape=False, attachments=attachments)).render(source)


def article(notebook: NotebookNode, folder: Path = NOTEBOOKS) -> str:
    """Give the cells of a notebook as HTML. Raises ValueError for a picture that nothing describes."""
    notebook.metadata.language_info = {"name": "python"}
    exporter = Article(template_name="basic", exclude_input_prompt=True, exclude_output_prompt=True)
    exporter.folder = folder
    cells, _ = exporter.from_notebook_node(notebook)
    if "No description has been provided for this image" in cells:
        raise ValueError("a figure is stored without a description in its metadata")
    # What may be too wide for the screen takes the focus, so that it can be scrolled with the keyboard.
    return re.sub(r'<(pre|div class="output_png[^"]*")>', r'<\1 tabindex="0">', cells)


def read_page(path: Path) -> Page:
    """Read a notebook; its first heading is the page's title."""
    notebook = nbformat.read(path, as_version=4)
    heading = re.search(r"^# (.+)$", notebook.cells[0].source, re.MULTILINE)
    if heading is None:
        raise ValueError(f"{path.name} does not begin with a heading")
    return Page(name_of(path), heading[1].strip(), path.parent, notebook)


def build(edition: Path) -> list[Path]:
    """Write the edition into a folder of its own, in place of the one before; give its files."""
    exercises = sorted((NOTEBOOKS / "exercises").glob("*.ipynb"))
    pages = [read_page(p) for p in [NOTEBOOKS / "index.ipynb", *sorted(NOTEBOOKS.glob("15_*.ipynb")), *exercises]]
    templates = Environment(loader=FileSystemLoader(HERE), undefined=StrictUndefined, autoescape=True)
    shell = templates.get_template("page.html.j2")
    texts = {}
    for page in pages:
        cells = article(page.notebook, page.folder)
        headings = re.findall(r'<h2 id="(.*?)">(.*?)</h2>', cells)
        sections = [(quote(html.unescape(name)), text) for name, text in headings]
        texts[page.name] = shell.render(page=page, pages=pages, sections=sections, article=cells)
    shutil.rmtree(edition, ignore_errors=True)
    edition.mkdir(parents=True)
    for name, text in texts.items():
        (edition / f"{name}.html").write_text(text, encoding="utf-8")
    colours = HtmlFormatter(style="xcode").get_style_defs(".highlight")
    style = (HERE / "book.css").read_text(encoding="utf-8")
    (edition / "book.css").write_text(f"{colours}\n\n{style}", encoding="utf-8")
    shutil.copyfile(str(files("ziamath") / "fonts" / FONT), edition / FONT)  # all that is wanted of that package
    return sorted(edition.iterdir())


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else EDITION
    written = build(folder)
    size = sum(path.stat().st_size for path in written) / 1e6
    print(f"{sum(path.suffix == '.html' for path in written)} pages, {size:.1f} MB: {folder / 'index.html'}")
