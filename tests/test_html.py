"""The static edition, as `make html-test` looks at it: in .venv-html, without torch and the book's package."""

import base64
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup

pytestmark = pytest.mark.html

ROOT = Path(__file__).parent.parent
BUILDER = ROOT / ".ci" / "html" / "build.py"
FOLDER = ROOT / "notebooks"
NOTEBOOKS = [
    FOLDER / "index.ipynb",
    *sorted(FOLDER.glob("15_*.ipynb")),
    *sorted((FOLDER / "exercises").glob("*.ipynb")),
]
AXE = "4.14.1"
WIDTHS = [400, 1400]
FLAGS = [
    *["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
    *["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"],
    "--host-resolver-rules=MAP * ~NOTFOUND",  # no name leads anywhere
]


def page_of(notebook: Path) -> str:
    """The stem of a notebook's page."""
    return f"exercise_{notebook.stem}" if notebook.parent.name == "exercises" else notebook.stem


pages = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture(scope="session")
def edition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The edition, built anew."""
    folder = tmp_path_factory.mktemp("edition") / "html"
    command = [sys.executable, str(BUILDER), str(folder)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert built.stderr == ""
    return folder


@cache
def parsed(text: str) -> BeautifulSoup:
    return BeautifulSoup(text, "html.parser")


def read(page: Path) -> BeautifulSoup:
    """A page of the edition. Nobody may change what it returns."""
    return parsed(page.read_text(encoding="utf-8"))


def outputs(notebook: Path, kind: str) -> list[Any]:
    """The stored outputs of a notebook that have a representation of some kind; streams are `stdout`."""
    cells = [cell for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    stored = [output for cell in cells for output in cell.outputs]
    return [output for output in stored if kind in output.get("data", {}) or output.get("name") == kind]


def link_faults(page: Path) -> list[str]:
    """What is wrong with a page's links: every one must lead to a file of the edition and a place that it has."""
    found = []
    for link in read(page).select("a[href]"):
        target = urlsplit(str(link["href"]))
        if target.scheme in ("http", "https"):
            continue  # somebody else's page, for the reader to open
        file = page.parent / unquote(target.path) if target.path else page
        if target.scheme or file.suffix != ".html" or not file.is_file():
            found.append(f"{link['href']} leads nowhere")
        elif target.fragment and len(read(file).find_all(id=unquote(target.fragment))) != 1:
            found.append(f"{link['href']} does not lead to one place of its page")
    return found


def outside_faults(page: Path) -> list[str]:
    """What a page would load or run beyond its own text, style, font and embedded pictures."""
    soup = read(page)
    found = [f"<{tag.name}>" for tag in soup.select("script, iframe, object, embed, base, video, audio, source")]
    found += [str(tag) for tag in soup.select("link") if tag.get("href") not in ("book.css", "data:,")]
    found += [str(tag)[:80] for tag in soup.select("[src]") if not str(tag["src"]).startswith("data:image/png;")]
    return found + [str(tag)[:80] for tag in soup.select("[srcset], [style*=url], style, meta[http-equiv]")]


def formulas(notebook: Path) -> int:
    """The number of formulas in a notebook's text, counted from its dollar signs."""
    cells = nbformat.read(notebook, as_version=4).cells
    written = [cell.source for cell in cells if cell.cell_type == "markdown"]
    written += [output.data["text/markdown"] for output in outputs(notebook, "text/markdown")]
    text = re.sub(r"```.*?```|`[^`]*`", "", "\n\n".join(written), flags=re.DOTALL)
    dollars = text.replace(r"\$", "").replace("$$", "$").count("$")
    assert dollars % 2 == 0
    return dollars // 2


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_every_notebook_has_a_page_and_nothing_else_has(edition: Path) -> None:
    made = {path.name for path in edition.iterdir()}
    assert made == {f"{page_of(path)}.html" for path in NOTEBOOKS} | {"book.css", "STIXTwoMath-Regular.ttf"}


@pages
def test_the_contents_list_all_pages_in_order_and_mark_this_one(notebook: Path, edition: Path) -> None:
    soup, names = read(edition / f"{page_of(notebook)}.html"), [f"{page_of(path)}.html" for path in NOTEBOOKS]
    assert [link["href"] for link in soup.select("nav > ol > li > a")] == names
    assert [link["href"] for link in soup.select("[aria-current=page]")] == [f"{page_of(notebook)}.html"]
    (title,) = soup.select("h1")
    assert soup.title
    assert soup.title.get_text().startswith(title.get_text())


@pages
def test_links_lead_somewhere(notebook: Path, edition: Path) -> None:
    assert link_faults(edition / f"{page_of(notebook)}.html") == []


@pages
def test_links_between_notebooks_are_links_between_pages(notebook: Path, edition: Path) -> None:
    sources = [cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "markdown"]
    written = re.findall(r"\]\(([\w./]+\.ipynb)\)", "\n".join(sources))
    wanted = [page_of((notebook.parent / path).resolve()) for path in written]
    links = [link["href"] for link in read(edition / f"{page_of(notebook)}.html").select("main a[href*='.']")]
    assert wanted
    assert [f"{stem}.html" for stem in wanted] == [link for link in links if ":" not in str(link)]


@pages
def test_a_page_loads_nothing_from_outside(notebook: Path, edition: Path) -> None:
    assert outside_faults(edition / f"{page_of(notebook)}.html") == []


def test_the_style_loads_the_font_alone(edition: Path) -> None:
    style = (edition / "book.css").read_text(encoding="utf-8")
    assert re.findall(r"url\((.*?)\)", style) == ['"STIXTwoMath-Regular.ttf"']
    assert "@import" not in style


@pages
def test_every_stored_figure_is_there_with_its_description(notebook: Path, edition: Path) -> None:
    shown = read(edition / f"{page_of(notebook)}.html").select("img")
    stored = outputs(notebook, "image/png")
    assert len(shown) == len(stored)
    for image, output in zip(shown, stored, strict=True):
        assert len(str(image["alt"])) > 20
        assert image["alt"] == output.metadata["image/png"]["alt"]
        _, data = str(image["src"]).split(",", 1)
        assert base64.b64decode(data) == base64.b64decode(output.data["image/png"])


@pages
def test_every_printed_line_is_there(notebook: Path, edition: Path) -> None:
    shown = [pre.get_text() for pre in read(edition / f"{page_of(notebook)}.html").select(".output_stdout pre")]
    assert [text.rstrip("\n") for text in shown] == [out.text.rstrip("\n") for out in outputs(notebook, "stdout")]


@pages
def test_every_table_and_every_cell_of_it_is_there(notebook: Path, edition: Path) -> None:
    stored = [output.data["text/markdown"] for output in outputs(notebook, "text/markdown")]
    lines = [line for text in stored if text.startswith("|") for line in text.splitlines()]
    rows = [line for line in lines if not set(line) <= set("|-: ")]
    shown = read(edition / f"{page_of(notebook)}.html").select(".output_markdown tr")
    assert len(shown) == len(rows)
    for row, line in zip(shown, rows, strict=True):
        if not set("$*_[`\\") & set(line):
            assert [squeezed(cell.get_text()) for cell in row.select("th, td")] == [
                squeezed(cell) for cell in line.strip().strip("|").split("|")
            ]


@pages
def test_every_formula_has_become_mathml(notebook: Path, edition: Path) -> None:
    soup = read(edition / f"{page_of(notebook)}.html")
    assert len(soup.select("math")) == formulas(notebook)
    assert "merror" not in str(soup.select("math"))
    prose = [text for text in soup.find_all(string=True) if not text.find_parents(["pre", "code"])]
    assert not re.search(r"\$|\\[a-z]+", " ".join(prose))


def test_there_are_formulas_and_figures_to_look_at() -> None:
    assert sum(map(formulas, NOTEBOOKS)) > 50
    assert sum(len(outputs(path, "image/png")) for path in NOTEBOOKS) >= 6


def built_in(program: str) -> tuple[int, str, str]:
    """Run a program that uses the builder; give its exit code, what it prints, and its last word."""
    ran = subprocess.run([sys.executable, "-c", program], cwd=BUILDER.parent, capture_output=True, text=True)
    return ran.returncode, ran.stdout, (ran.stderr.splitlines() or [""])[-1]


def test_a_command_that_cannot_be_converted_stops_the_build() -> None:
    program = "from build import mathml; print(mathml('x', 'inline')); mathml(r'\\nosuchcommand x', 'inline')"
    code, printed, last = built_in(program)
    assert printed.startswith("<math")
    assert code == 1
    assert "nosuchcommand" in last


@pytest.mark.parametrize(("metadata", "stopped"), [({"image/png": {"alt": "a circle"}}, 0), ({}, 1)])
def test_a_figure_without_a_description_stops_the_build(metadata: dict, stopped: int) -> None:
    output = nbformat.v4.new_output("display_data", {"image/png": "AAAA"}, metadata=metadata)
    cell = nbformat.v4.new_code_cell("draw()", outputs=[output], execution_count=1)
    notebook = nbformat.writes(nbformat.v4.new_notebook(cells=[cell]))
    code, printed, last = built_in(f"import build; print(build.article(build.nbformat.reads({notebook!r}, 4)))")
    assert code == stopped
    assert ("without a description" in last) == bool(stopped)
    assert ('alt="a circle"' in printed) == (not stopped)


SPOILS: dict[str, tuple[str, str, Callable[[Path], list[str]]]] = {
    "a link to a notebook": ('<a href="index.html">', '<a href="index.ipynb">', link_faults),
    "a link to no place": ('<a href="#Summary">', '<a href="#Sumary">', link_faults),
    "a place named twice": ("<main", '<p id="Summary"></p><main', link_faults),
    "a script": ("</body>", "<script>1</script></body>", outside_faults),
    "a foreign picture": ("</main>", '<img src="//x.org/a.png"></main>', outside_faults),
    "a foreign style": (
        "</head>",
        '<link href="https://x.org/a.css"></head>',
        outside_faults,
    ),
}


@pytest.mark.parametrize("name", SPOILS)
def test_a_spoiled_page_is_found_out(name: str, edition: Path, tmp_path: Path) -> None:
    old, new, faults = SPOILS[name]
    shutil.copytree(edition, tmp_path, dirs_exist_ok=True)
    page = tmp_path / "15_6_transfer_lab.html"
    assert faults(page) == []
    text = page.read_text(encoding="utf-8")
    assert old in text
    page.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert len(faults(page)) >= 1


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A Chromium without a network: the system's, or the one that playwright has downloaded."""
    from playwright.sync_api import Error, sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(executable_path=program, args=FLAGS)
        except Error as error:
            if program:
                raise
            pytest.skip(f"NOT CHECKED, there is no browser here: {error.message.splitlines()[0]}")
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The accessibility checker axe-core, which is to be had from npm alone; kept in .venv-html from then on."""
    kept = Path(sys.prefix) / f"axe-{AXE}.min.js"
    if not kept.exists():
        folder = tmp_path_factory.mktemp("axe")
        if not (npm := shutil.which("npm")):
            pytest.skip("NOT CHECKED, accessibility: there is no npm here, which axe-core comes from")
        fetched = subprocess.run([npm, "pack", f"axe-core@{AXE}"], cwd=folder, capture_output=True, text=True)
        if fetched.returncode:
            pytest.skip(f"NOT CHECKED, accessibility: npm cannot fetch axe-core: {fetched.stderr[-300:]}")
        shutil.unpack_archive(folder / f"axe-core-{AXE}.tgz", folder)
        shutil.copyfile(folder / "package" / "axe.min.js", kept)
    return kept.read_text(encoding="utf-8")


@pytest.fixture
def view(browser: Any) -> Iterator[Callable[[Path, int], tuple[Any, list[str]]]]:
    """Open a page at a width: gives the tab, and what it asked for or complained of."""
    contexts = []

    def opened(page: Path, width: int) -> tuple[Any, list[str]]:
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
        contexts.append(context)
        tab, trouble = context.new_page(), []
        allowed = (page.parent.as_uri(), "data:image/png;", "data:,")
        tab.on("request", lambda asked: trouble.append(asked.url) if not asked.url.startswith(allowed) else None)
        tab.on("requestfailed", lambda asked: trouble.append(f"failed: {asked.url}"))
        tab.on("console", lambda told: trouble.append(told.text) if told.type in ("error", "warning") else None)
        tab.on("pageerror", lambda error: trouble.append(str(error)))
        tab.goto(page.as_uri(), wait_until="load")
        tab.evaluate("document.fonts.ready")
        return tab, trouble

    yield opened
    for context in contexts:
        context.close()


LAYOUT = """() => ({
    sideways: document.documentElement.scrollWidth - window.innerWidth,
    broken: [...document.images].filter(i => !i.naturalWidth || !i.getBoundingClientRect().width).length,
    formulas: [...document.querySelectorAll('math')].filter(m => m.getBoundingClientRect().height > 4).length,
    font: document.fonts.check('16px "STIX Two Math"'),
    fractions: [...document.querySelectorAll('mfrac')].filter(
        f => f.firstElementChild.getBoundingClientRect().bottom <= f.lastElementChild.getBoundingClientRect().top
    ).length,
    background: getComputedStyle(document.body).backgroundColor,
})"""


@pytest.mark.parametrize("width", WIDTHS)
@pages
def test_a_page_reads_well_without_a_network(notebook: Path, width: int, edition: Path, view: Any) -> None:
    page = edition / f"{page_of(notebook)}.html"
    tab, trouble = view(page, width)
    layout = tab.evaluate(LAYOUT)
    assert trouble == []
    assert layout["sideways"] <= 0, "the page has to be scrolled sideways"
    assert layout["broken"] == 0
    assert layout["formulas"] == formulas(notebook)
    assert layout["font"] == (formulas(notebook) > 0), "a font is loaded where it is used"
    assert layout["fractions"] == len(read(page).select("mfrac")), "a fraction stands upright"
    assert layout["background"] == "rgb(255, 255, 255)"


def grave(tab: Any, axe: str) -> list[str]:
    """What axe-core calls serious or critical; the lesser findings are told as warnings."""
    tab.evaluate(axe)
    found = tab.evaluate("() => axe.run()")
    assert len(found["passes"]) > 10
    told = [
        (fault["impact"], f"{fault['id']}: {fault['nodes'][0]['html'][:120]}") for fault in found["violations"]
    ]
    for impact, text in told:
        if impact not in ("serious", "critical"):
            warnings.warn(f"axe-core, {impact}: {text}", stacklevel=2)
    return [text for impact, text in told if impact in ("serious", "critical")]


@pytest.mark.parametrize(
    ("notebook", "width"),
    [*((path, 400) for path in NOTEBOOKS), (NOTEBOOKS[1], 1400)],
    ids=lambda v: getattr(v, "stem", v),
)
def test_a_page_can_be_read_by_everybody(notebook: Path, width: int, edition: Path, view: Any, axe: str) -> None:
    tab, _ = view(edition / f"{page_of(notebook)}.html", width)
    assert grave(tab, axe) == []


def spoiled(edition: Path, folder: Path, old: str, new: str) -> Path:
    """The page of 15.8, with one thing changed, in a copy of the edition."""
    shutil.copytree(edition, folder, dirs_exist_ok=True)
    page = folder / "15_8_what_changed.html"
    text = page.read_text(encoding="utf-8")
    assert old in text
    page.write_text(text.replace(old, new, 1), encoding="utf-8")
    return page


REQUESTS = {
    "a picture": '<img src="https://example.org/a.png">',
    "a script": '<script src="http://192.0.2.1/a.js"></script>',
    "an error": "<script>x()</script>",
}


@pytest.mark.parametrize("name", REQUESTS)
def test_the_browser_sees_a_request_and_an_error(name: str, edition: Path, tmp_path: Path, view: Any) -> None:
    _, trouble = view(spoiled(edition, tmp_path, "</main>", f"{REQUESTS[name]}</main>"), 1400)
    assert trouble


LAID_OUT = {
    "sideways": f"<b>{'wide' * 100}</b>",
    "broken": '<img alt="nothing" src="data:image/png;base64,AAAA">',
    "formulas": "<math><mi>x</mi></math>",
    "fractions": "<math><mfrac><mi>x</mi><mi>y</mi></mfrac></math>",
}


@pytest.mark.parametrize("name", LAID_OUT)
def test_the_browser_sees_how_a_page_is_laid_out(name: str, edition: Path, tmp_path: Path, view: Any) -> None:
    sound, _ = view(edition / "15_8_what_changed.html", 400)
    assert sound.evaluate(LAYOUT)[name] <= 0
    other, _ = view(spoiled(edition, tmp_path, "</main>", f"{LAID_OUT[name]}</main>"), 400)
    assert other.evaluate(LAYOUT)[name] > 0


def test_the_browser_sees_a_formula_that_is_not_set(edition: Path, tmp_path: Path, view: Any) -> None:
    hidden = '<math style="display: none"><mi>x</mi></math>'
    tab, _ = view(spoiled(edition, tmp_path, "</main>", f"{hidden}</main>"), 400)
    assert tab.evaluate(LAYOUT)["formulas"] == 0


INACCESSIBLE = {
    "image-alt": ("</main>", '<img src="data:image/png;base64,AAAA"></main>'),
    "html-has-lang": ('<html lang="en-GB">', "<html>"),
    "color-contrast": ("<p>", '<p style="color: #aaa">'),
    "scrollable-region-focusable": ("</main>", f"<pre>{'wide ' * 100}</pre></main>"),
}


@pytest.mark.parametrize("rule", INACCESSIBLE)
def test_axe_finds_what_it_is_there_for(rule: str, edition: Path, tmp_path: Path, view: Any, axe: str) -> None:
    tab, _ = view(spoiled(edition, tmp_path, *INACCESSIBLE[rule]), 400)
    assert rule in [text.split(":")[0] for text in grave(tab, axe)]
