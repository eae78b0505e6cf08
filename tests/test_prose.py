"""No page says a decimal number that it neither prints nor cites; and the guard that looks sees what it should."""

import json
import re
from decimal import Decimal
from functools import cache
from pathlib import Path

import nbformat
import pytest
from decimals import Number, numbers, rounds_to
from literature import Literature
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from prose import ALLOWED, Fault, blocks, faults, printed, said

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"
PAGES = sorted(page for part in ("", "solutions", "exercises") for page in (FOLDER / part).glob("*.ipynb"))
DATA = ROOT / "tests" / "data"
EXCEPTIONS: dict[str, dict[str, str]] = json.loads((DATA / "prose-exceptions.json").read_text(encoding="utf-8"))
LITERATURE = Literature((DATA / "literature.md").read_text(encoding="utf-8"))
BERT = "[Devlin et al. 2019](https://arxiv.org/abs/1810.04805)"
NOWHERE = "987654.321"

pages = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(FOLDER).with_suffix("").as_posix()
)


@cache
def read(page: Path) -> NotebookNode:
    """Read a page once; nobody may change what this gives."""
    return nbformat.read(page, as_version=4)


def page_of(text: str, output: str = "", **data: str) -> NotebookNode:
    """A page of one text, one printed line, and an output in other forms."""
    outputs = [new_output("stream", text=output), new_output("display_data", data)]
    return new_notebook(cells=[new_markdown_cell(text), new_code_cell("0.31337", outputs=outputs)])


def complaints(text: str, output: str = "", **data: str) -> list[str]:
    return [f"{fault.number}: {fault.complaint}" for fault in faults(page_of(text, output, **data), LITERATURE)]


def uncovered(text: str, output: str = "", **data: str) -> list[str]:
    return [fault.number for fault in faults(page_of(text, output, **data), LITERATURE)]


@pages
def test_every_decimal_number_of_the_text_is_printed_or_cited(page: Path) -> None:
    excepted = EXCEPTIONS.get(page.stem, {})
    found = [str(fault) for fault in faults(read(page), LITERATURE) if fault.number not in excepted]
    assert not found, "\n".join([f"{page.stem} says numbers that nothing covers.", *found, ALLOWED])


def test_every_exception_is_needed_and_has_its_reason() -> None:
    for name, numbers_of_page in EXCEPTIONS.items():
        versions = [page for page in PAGES if page.stem == name]
        needed = {fault.number for page in versions for fault in faults(read(page), LITERATURE)}
        unused = sorted(set(numbers_of_page) - needed)
        assert not unused, f"{name} has no such number, or covers it: take out the exceptions {unused}"
        for number, reason in numbers_of_page.items():
            assert len(reason.split()) >= 4, f"{name}: the exception {number} needs its reason in words"


def figures(page: Path) -> list[tuple[NotebookNode, str]]:
    """Give the decimal numbers that a page says, each with its cell, without sign and unit."""
    cells = [cell for cell in read(page).cells if cell.cell_type == "markdown"]
    found = [(cell, number.written) for cell in cells for _, _, number in said(new_notebook(cells=[cell]))]
    as_written = [(cell, written) for cell, written in found if "e" not in written or written in cell.source]
    return [(cell, re.findall(r"^[-+]?([\d.,]+)", written)[0]) for cell, written in as_written]


def is_seen(page: Path, cell: NotebookNode, figure: str, other: str) -> bool:
    """Say whether the guard sees another number in the place of a page's own, in a copy of its cell."""
    changed, times = re.subn(rf"(?<![\w./]){re.escape(figure)}(?![\d.]*\d)", other, cell.source)
    assert times > 0, f"{figure} is not found in its own cell"
    printing = [code for code in read(page).cells if code.cell_type == "code"]
    found = faults(new_notebook(cells=[new_markdown_cell(changed), *printing]), LITERATURE)
    return any(fault.number.lstrip("+-").startswith(other) for fault in found)


@pages
def test_no_place_of_a_page_is_overlooked(page: Path) -> None:
    for cell, figure in figures(page):
        assert is_seen(page, cell, figure, NOWHERE), f"no fault is found where {figure} stood in\n{cell.source}"


def test_a_changed_digit_in_a_copy_of_a_page_is_seen() -> None:
    """Of the ten last digits that a page's longest number could have, the page prints few."""
    tried = 0
    for page in PAGES:
        longest = sorted(figures(page), key=lambda pair: -len(pair[1]))[:1]
        for cell, figure in longest:
            if len(figure) < len("0.85"):
                continue  # a page prints many numbers that round to so short a one
            seen = sum(is_seen(page, cell, figure, figure[:-1] + digit) for digit in "0123456789")
            assert seen >= 5, f"{page.stem}: of ten last digits for {figure}, only {seen} are seen to be wrong"
            tried += 1
    assert tried > 0, "no page says a number of two decimals"


def test_the_message_names_the_number_its_sentence_and_what_is_allowed() -> None:
    text = "First it is 0.85. Then\nit rose to 0.963, says Somebody et al. 2030. Good."
    (fault,) = faults(page_of(text, "0.85 and 1"), LITERATURE)
    assert fault == Fault(
        "0.963",
        "Then it rose to 0.963, says Somebody et al. 2030.",
        "no output of the page shows it (the nearest number shown: 0.85)",
    )
    assert str(fault).startswith("0.963 in “Then it rose to 0.963, says Somebody et al. 2030.”: no output")
    for allowed in ("an output of this page", "literature.md", "Devlin et al. 2019", "prose-exceptions.json"):
        assert allowed in ALLOWED


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("It is 0.526.", "0.526"),
        ("It is about 0.5.", "0.526"),
        ("It is 0.53.", "0.526"),
        ("It is .53.", "0.526"),
        ("A half rounds either way, 0.12 or 0.13.", "0.125"),
        ("It is 12.3 %, 12.3% or $12.3\\,\\%$.", "0.12345"),
        ("It is 12.3 per cent.", "12.34%"),
        ("It is 0.123.", "12.34%"),
        ("It is 0.85.", "85 %"),
        ("From 2.5 to 4.5 %.", "0.025 0.045"),
        ("It is -0.0347, or $-0.035$.", "-0.0347"),
        ("It is −0.0347.", "-0.0347"),
        ("From 0.468-0.995, or 0.468–0.995.", "0.468 0.995"),
        ("The rate is 2e-4, $2\\cdot10^{-4}$, $2 \\times 10^{-4}$, 2×10⁻⁴ or 0.0002.", "0.0002"),
        ("It is $10^{-5}$ or 10<sup>-5</sup>.", "1e-05"),
        ("It is 1,234.5.", "1234.52"),
        ("Zero is 0.0.", "0.0"),
        ("The gain is +0.5.", "0.5"),
        ("In `code`: `rate=0.15`.", "0.15"),
    ],
)
def test_a_number_that_is_printed_may_be_said(text: str, output: str) -> None:
    assert complaints(text, output) == []


@pytest.mark.parametrize(
    ("text", "output", "number"),
    [
        ("It is 0.527.", "0.526", "0.527"),
        ("It is about 0.6.", "0.526", "0.6"),
        ("It is .54.", "0.526", ".54"),
        ("It is 0.850.", "0.85", "0.850"),  # more digits than are shown
        ("It is 1.0.", "1", "1.0"),
        ("It is 0.00.", "0.0004", "0.00"),  # which is not nothing
        ("It is 0.0347.", "-0.0347", "0.0347"),
        ("It is $-0.5$.", "0.5", "-0.5"),
        ("It is 12.4 %.", "0.12345", "12.4 %"),
        ("It is 12.3.", "0.123", "12.3"),
        ("It is 0.85 %.", "0.85", "0.85 %"),
        ("The rate is 2e-4.", "2e-3", "2e-4"),
        ("The rate is $3\\cdot10^{-4}$.", "3", "3e-4"),
        ("The rate is 10<sup>-5</sup>.", "0.1", "1e-5"),
        ("It is 1,234.5.", "1.5", "1,234.5"),
        ("Not twice: 10.5.", "0.5", "10.5"),
        ("$$x + 0.25$$", "0.26", "0.25"),
        ("In `code`: `rate=0.15`.", "0.1", "0.15"),
        ("| a | b |\n|---|---|\n| one | 0.15 |", "0.1", "0.15"),
        ("1. an item\n   - with 0.15 in it", "0.1", "0.15"),
        ("> A quotation, 0.15.", "0.1", "0.15"),
        ("## A heading with 0.15", "0.1", "0.15"),
        ("<details><summary>Answer</summary>\n\nIt is 0.15.\n\n</details>", "0.1", "0.15"),
        ("<p>It is <b>0.15</b>.</p>", "0.1", "0.15"),
        ("![A curve that falls to 0.15](0.1.png)", "0.1", "0.15"),
        ('<img src="a.svg" alt="A curve that falls to 0.15">', "0.1", "0.15"),
        ("A [link on 0.15](https://example.org/0.1)", "0.1", "0.15"),
        ("Loss 15.3 % lower.", "0.1", "15.3 %"),
        ("Loss 15.30 after that.", "0.1", "15.30"),
        ("An error of 0.31337.", "0.1", "0.31337"),  # stands in the code cell only
        ("It ran for 1.5 s.", "0.1", "1.5"),
        ("It has 2.5M numbers.", "0.1", "2.5"),
    ],
)
def test_a_number_that_is_not_printed_is_seen(text: str, output: str, number: str) -> None:
    assert uncovered(text, output) == [number]


@pytest.mark.parametrize(
    "text",
    [
        "15 of 4,368 words, 85 %, 1e6 steps, $10^5$ of them.",
        "# 15.3 The objective",
        "See 15.1-15.3, Sections 15.4 and 15.5, section 14.2, Figure 15.4 and Table 15.1; then 15.9.",
        "With torch 2.4.1, 2.13.0 and PyTorch 2.4, on Python 3.11, by version 1.0 of it, v1.1, on 18.12.2024.",
        "SQuAD 1.1, SQuAD1.1/2.0 and SQuAD 2.0.",
        "See arXiv:1810.04805, 1810.04805v2, doi 10.18653/v1/2020.acl-main.240 and https://example.org/0.15.",
        "A [link](https://example.org/0.15) and <https://example.org/0.15> and ![a picture](0.15.svg).",
        "```python\nrate = 0.15\n```",
        '<svg><path d="M 0.15 0.25"/><style>a { width: 0.15px }</style></svg>',
    ],
)
def test_what_is_a_name_a_whole_number_or_code_is_left_alone(text: str) -> None:
    assert complaints(text) == []


def test_everything_that_an_output_shows_is_printed() -> None:
    said_in_text = "It is 0.11, 0.12, 0.13, 0.14 and 0.15."
    markdown = "| a |\n|---|\n| 0.12 |\n\n```python\nrate = 0.13\n```\n[x](0.16)"
    html, svg = '<div style="width: 0.17px"><b>0.14</b></div>', '<svg><path d="M0.18"/><text>0.15</text></svg>'
    data = {"text/markdown": markdown, "text/html": html, "image/svg+xml": svg, "text/plain": "<Box 0.19>"}
    assert uncovered(said_in_text, "0.11", **data) == []
    hidden = ["0.16", "0.17", "0.18", "0.19"]
    assert uncovered(", ".join(hidden), "0.11", **data) == hidden
    assert uncovered("It is 0.19.", **{"text/plain": "0.19"}) == []


def test_the_sentence_that_stands_for_a_picture_is_printed() -> None:
    page = page_of("From 0.468 to 0.995.")
    about = {"image/png": {"alt": "from 0.468 to 0.995"}}
    page.cells[1].outputs.append(new_output("display_data", {"image/png": "0.5"}, metadata=about))
    assert printed(page).strip() == "from 0.468 to 0.995"
    assert faults(page, LITERATURE) == []


@pytest.mark.parametrize(
    "citation",
    [
        "[the paper](https://arxiv.org/abs/1810.04805)",
        "[the paper](https://arxiv.org/pdf/1810.04805v2.pdf)",
        "[the paper](https://aclanthology.org/N19-1423/)",
        "<https://arxiv.org/abs/1810.04805>",
        "<a href='https://arxiv.org/abs/1810.04805'>the paper</a>",
        "Devlin et al. 2019",
        "Devlin et al. (2019)",
        "(Devlin et al., 2019)",
        "Devlin, Chang, Lee and Toutanova 2019",
        "Devlin et al.’s 2019 paper",
    ],
)
def test_a_number_of_the_sheet_is_covered_by_a_citation_beside_it(citation: str) -> None:
    assert complaints(f"BASE reached 84.6 on MNLI ({citation}).", "0.1") == []
    assert complaints(f"- BASE reached 84.6 on MNLI ({citation}).", "0.1") == []
    assert complaints(f"{citation} says\n\n- BASE reached 84.6.", "0.1") != []


@pytest.mark.parametrize(
    "citation",
    [
        "the paper",
        "[the paper](https://arxiv.org/abs/1810.04806)",
        "[the paper](https://example.org/1810.04805)",
        "[the paper](https://doi.org/10.1000/182)",
        "Devlin et al.",
        "Devlin et al. 2018",
        "Somebody et al. 2019",
        "2019",
    ],
)
def test_a_number_of_the_sheet_without_a_citation_is_seen(citation: str) -> None:
    (complaint,) = complaints(f"BASE reached 84.6 on MNLI ({citation}).", "0.1")
    assert complaint.startswith("84.6: ")
    assert complaint.endswith("the literature sheet has it, but no work of the sheet is cited beside it")


@pytest.mark.parametrize(
    "number",
    [
        "84.65",
        "84.60",  # a digit more than the sheet has
        "82.82",  # the sheet only recalls it
        "3.4",  # a section of the sheet
        "30.4",  # volume and issue of a work
    ],
)
def test_a_citation_without_the_number_in_the_sheet_is_seen(number: str) -> None:
    (complaint,) = complaints(f"It reached {number} on MNLI ({BERT}).", "0.1")
    assert complaint.startswith(f"{number}: ")
    assert complaint.endswith("a work is cited beside it, but the literature sheet does not have it")


def test_a_table_may_be_cited_directly_above_or_below() -> None:
    table, cited, other = "| a | b |\n|---|---|\n| MNLI | 84.6 |", f"As in {BERT}.", "Something else."
    assert complaints(f"{cited}\n\n{table}", "0.1") == []
    assert complaints(f"{table}\n\n{cited}", "0.1") == []
    assert complaints(table.replace("MNLI", BERT), "0.1") == []
    assert complaints(f"{cited}\n\n<table><tr><td>84.6</td></tr></table>", "0.1") == []
    assert uncovered(f"{cited}\n\n{other}\n\n{table}", "0.1") == ["84.6"]
    assert uncovered(f"{cited}\n\n## A heading\n\n{table}", "0.1") == ["84.6"]
    assert uncovered(f"## {cited}\n\n{table}", "0.1") == ["84.6"]
    assert uncovered(f"{cited}\n\nIt reached 84.6.\n\n{cited}", "0.1") == ["84.6"]
    assert complaints(f"{cited}\n\n$$x = 84.6$$", "0.1") == []


@pytest.mark.parametrize(
    ("written", "stands"),
    [("0.02", True), ("1e-4", True), ("6.25e-5", True), ("12 %", True), ("0.12", True), ("83.28", True),
     ("97.0 %", False), ("82.09", False), ("0.021", False), ("6.3e-5", False)],
)  # fmt: skip
def test_what_the_sheet_vouches_for(written: str, stands: bool) -> None:
    (number,) = numbers(written)
    assert LITERATURE.states(number) is stands


def test_what_a_sheet_only_recalls_or_says_elsewhere_does_not_count() -> None:
    sheet = """
## 1. Bibliography
| 1 | A. Author 2019, Title | volume 0.1 | 1234.5678 |
## 2. Results
### 2.7 A heading
- one 0.2 ✓, another 0.3 (recalled); a third 0.4 (computed)
- two tables: do not print their decimals

| a |
|---|
| 0.5 |

- again 0.6 ✓
## 7. Elsewhere
- 0.8
"""
    assert [number.written for number in Literature(sheet).numbers] == ["0.2", "0.4", "0.6"]


def test_all_works_of_the_sheet_can_be_cited() -> None:
    assert len(LITERATURE.works) == 57 + 5
    for work in (
        "Howard and Ruder 2018",
        "Liu et al. 2019",
        "Tjong Kim Sang and De Meulder 2003",
        "Bender et al. 2021",
    ):
        assert LITERATURE.cited_in(work, ()), work
    for link in (
        "https://doi.org/10.1145/3442188.3445922",
        "https://aclanthology.org/2020.acl-main.240",
        "https://www.jmlr.org/papers/v3/bengio03a.html",
    ):
        assert LITERATURE.cited_in("", (link,)), link


def test_numbers_know_their_value_and_their_place() -> None:
    found = numbers("At 0.80, then −2.5e-3 and 12.0 % of 1,000.")
    assert found == [
        Number("0.80", Decimal("0.80"), False, 3),
        Number("-2.5e-3", Decimal("-0.0025"), False, 14),
        Number("12.0 %", Decimal("12.0"), True, 26),
        Number("1,000", Decimal(1000), False, 36),
    ]
    assert [number.decimal for number in found] == [True, True, True, False]
    assert not rounds_to(found[3], found[0])


def test_blocks_are_those_of_the_page() -> None:
    parts = ("# A", f"One\ntwo {BERT}.", "- item\n\n  more\n  - inner", "> quoted", "$$y$$")
    text = "\n\n".join((*parts, "| a |\n|---|\n| b |", "```\nc\n```"))
    assert [(block.kind, " ".join(block.text.split())) for block in blocks(text)] == [
        ("heading", "A"),
        ("paragraph", "One two Devlin et al. 2019."),
        ("list_item", "item more"),
        ("list_item", "inner"),
        ("paragraph", "quoted"),
        ("formula", "y"),
        ("table", "a | b |"),
    ]
    assert blocks(text)[1].links == ("https://arxiv.org/abs/1810.04805",)
