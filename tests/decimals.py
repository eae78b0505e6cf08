"""The numbers of a text, and when a printed one is the one said.

A decimal number has a decimal point (0.85, .85, -0.0347, 12.0 %) or a negative power of ten (2e-4, 10^{-5}).
Section numbers (15.3, Figure 15.1), versions (2.13.0, Python 3.11, SQuAD 1.1), dates, addresses and the ids of
papers are names and not numbers.
"""

import re
from dataclasses import dataclass
from decimal import Decimal

PERCENT = r"(?:[\s~]|\\,)*(?:\\?%|per\s?cent\b)"
SHARED_PERCENT = re.compile(r"\s*(?:to|[-–/])\s*")  # "from 2.5 to 4.5 %"
NUMBER = re.compile(
    r"(?P<sign>(?<![\w)\]}%.+−–-])[-+−–])?(?<![\d.])"
    r"(?P<digits>(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d+)?|\.\d+)"
    rf"(?P<power>[eE][-+−]?\d+)?(?P<percent>{PERCENT})?"
)
POWER = re.compile(
    r"(?:(\d+(?:\.\d+)?)\s*(?:\\cdot|\\times|[×·])\s*)?(?<![\d.])10(?:\^\{?([-−]?\d+)\}?|(⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+))"
)
PLAIN = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−–", "-0123456789--")
NAME = re.compile(
    r"https?://\S+|\b10\.\d{4,}/\S+"  # addresses and DOIs
    r"|\b[0-2]\d(?:0[1-9]|1[0-2])\.\d{4,5}(?:v\d+)?\b"  # arXiv's ids: year, month, number
    r"|(?<![\d.])\d+(?:\.\d+){2,}"  # versions in three parts, and dates
    r"|\b(?:v|versions? |Python (?:>= ?)?|(?:Py)?torch(?:>=| ))\d(?:\.\d+)+|\bGPT-\d\.\d\b"
    r"|\bSQuAD ?(?:v?1\.1(?:/2\.0)?|v?2\.0)(?!\d)"
    r"|(?:\b(?:Sections?|Chapters?|Figures?|Tables?|Equations?|Exercises?|Appendix)\s|§ ?)\d+\.\d+(?!\d)"
    rf"|(?<![\d.])(?<![^\d][-+−–])15\.[1-9](?!\d|\.\d|{PERCENT})",  # this chapter's sections, bare
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Number:
    """A number: how it is written, its value in its own unit, whether that is per cent, and where it begins."""

    written: str
    value: Decimal
    percent: bool = False
    start: int = 0

    @property
    def places(self) -> int:
        """The power of ten of its last digit: -2 for 0.85, -4 for 2e-4."""
        exponent = self.value.as_tuple().exponent
        assert isinstance(exponent, int), f"{self.written} is not a finite number"
        return exponent

    @property
    def decimal(self) -> bool:
        """Whether it has a decimal point or a negative power of ten."""
        return self.places < 0 or "." in self.written

    def share(self) -> Decimal:
        """Give its value as a share of one where it is in per cent, else as it is, with all its digits."""
        return self.value.scaleb(-2) if self.percent else self.value


def numbers(text: str) -> list[Number]:
    """Give all numbers of a text, whole ones too, in their order."""
    text = NAME.sub(lambda found: "\0" * len(found.group()), text)
    text = POWER.sub(in_one_piece, text)
    result: list[Number] = []
    percent, following = False, len(text)
    for found in reversed(list(NUMBER.finditer(text))):
        shared = percent and SHARED_PERCENT.fullmatch(text[found.end() : following]) is not None
        percent, following = found["percent"] is not None or shared, found.start()
        figure = "".join(part or "" for part in found.group("sign", "digits", "power")).translate(PLAIN)
        value = Decimal(figure.replace(",", ""))
        result.append(Number(found.group().translate(PLAIN), value, percent, following))
    return result[::-1]


def in_one_piece(found: re.Match[str]) -> str:
    """Write 2 x 10^{-4} as 2e-4, in as many characters, so that what follows stays where it is."""
    power = (found[2] or found[3]).translate(PLAIN)
    return f"{found[1] or 1}e{power}".ljust(len(found.group()))


def rounds_to(printed: Number, said: Number) -> bool:
    """Say whether a printed number is the one said, or a longer one that rounds to it.

    12.3 % and 0.123 are the same number. A half rounds either way. What is said has no more digits than what is
    printed, and is zero only where that is.
    """
    shift = 2 * (said.percent - printed.percent)
    value, places = printed.value.scaleb(shift), printed.places + shift
    if places > said.places or (said.value == 0) != (value == 0):
        return False
    return abs(value - said.value) <= Decimal(5).scaleb(said.places - 1)
