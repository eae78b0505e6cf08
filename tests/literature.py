"""The sheet of the literature, tests/data/literature.md: its numbers, and how its works are cited."""

import re
from collections.abc import Iterator

from decimals import Number, numbers, rounds_to

AUTHOR_AND_YEAR = re.compile(
    r"^(?:\| \d+ \||-) (?:[A-Z]\w?\. )+(?P<author>.+?)(?=,| et al\.| \d{4})[^|]*?\b(?P<year>\d{4}),", re.MULTILINE
)
OTHER_AUTHORS = r"(?:,? (?:and |& )?[A-Z][\w’'-]+)*(?: et al\.)?(?:['’]s)?,? \(?"
PAPER_ID = re.compile(
    r"\b(?:\d{4}\.\d{4,5}|[A-Z]\d{2}-\d{4}|[a-z]{2}/\d{7})\b|\b10\.\d{4,}/[^\s,;|]+|\b[\w.]+\.(?:org|com)/\S+"
)
MARKS = re.compile(r"(✓|\(recalled\)|\(computed\))")
SITES = ("arxiv.org", "doi.org", "aclanthology.org")


class Literature:
    """A sheet: its works with their ids, and the numbers of its sections 2 to 6.

    What the sheet marks as only recalled is not vouched for, and neither are whole numbers without a unit.
    """

    def __init__(self, sheet: str) -> None:
        self.works = [
            re.compile(rf"\b{re.escape(work['author'])}{OTHER_AUTHORS}{work['year']}\b")
            for work in AUTHOR_AND_YEAR.finditer(sheet)
        ]
        self.ids = {found.rstrip(").;:,`") for found in PAPER_ID.findall(sheet)}
        said = (number for line in vouched_for(sheet) for number in numbers(line))
        self.numbers = [number for number in said if number.decimal or number.percent]

    def states(self, number: Number) -> bool:
        """Say whether the sheet has this number, with all its digits; 12.3 % and 0.123 are the same number."""
        return any(rounds_to(known, number) and known.share() == number.share() for known in self.numbers)

    def cited_in(self, text: str, links: tuple[str, ...]) -> bool:
        """Say whether a text with its links cites a work of the sheet, by author and year or by a link."""
        return any(work.search(text) for work in self.works) or any(map(self.is_work, links))

    def is_work(self, link: str) -> bool:
        """Say whether a link leads to a work of the sheet: at arXiv, by DOI, in the ACL anthology or elsewhere."""
        address = re.sub(r"^https?://(www\.|dx\.)?", "", link)
        site, _, path = address.partition("/")
        if site not in SITES:
            return address in self.ids
        name = re.sub(r"^(abs|pdf)/|(v\d+)?(\.pdf)?/?$", "", path)
        return name in self.ids or f"10.18653/v1/{name}" in self.ids


def vouched_for(sheet: str) -> Iterator[str]:
    """Give what sections 2 to 6 of the sheet vouch for, in pieces and without headings."""
    section, only_recalled = 0, False
    for line in sheet.splitlines():
        if line.startswith("#"):
            begun = re.match(r"## (\d+)\.", line)
            section = int(begun[1]) if begun else section
        elif 2 <= section <= 6:
            only_recalled = "do not print their decimals" in line or (only_recalled and line[:1] in ("", "|"))
            pieces = MARKS.split("" if only_recalled else line)
            marks = [*pieces[1::2], ""]
            yield from (piece for piece, mark in zip(pieces[::2], marks, strict=True) if mark != "(recalled)")
