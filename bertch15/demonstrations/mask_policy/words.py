"""The words that the demonstration of the mask policy knows, and how it reads a sentence.

The vocabulary is fixed, as a real one is: a word of the reader's own may be unknown, and is then [UNK].
"""

from typing import NamedTuple

from bertch15.vocabulary import SPECIALS, Vocabulary

SENTENCES = (
    "the boat reached the bank and the bank approved the loan",
    "the bank rose",
    "before the rain the farmer crossed the river with a green boat",
    "we saw the old house under the hill",
)

MORE_WORDS = (
    "an at by for from in it near of on over she they to was were",
    "banker bread child day dog fish garden light money morning night people road rose stone street tree water",
    "church farm ship",
    "asked ate bought came found gave grew left moved opened paid ran read slept sold stood took walked went",
    "big blue cold dark little new red slow small warm white young",
    "again here never now often slowly then today",
)
VOCABULARY = Vocabulary.of(word for line in (*SENTENCES, *MORE_WORDS) for word in line.split())
WORDS = VOCABULARY.tokens[len(SPECIALS) :]
"""The ordinary words, which are also those that a random replacement may draw."""

MOST_TOKENS = 12
MARKS = ".,;:!?\"'()…–—-“”‘’«»"
MOST_NAMED, LONGEST_NAMED = 4, 20


class ReadSentence(NamedTuple):
    """A sentence as words of the vocabulary or unknown ones, and in words what had to be done to it."""

    words: tuple[str, ...]
    remarks: tuple[str, ...]


def read(sentence: str) -> ReadSentence:
    """Read a sentence: words parted by white space, without capitals and punctuation, at most `MOST_TOKENS`.

    sentence: any text, the empty one too. Special tokens such as [MASK] are read as such.
    The words come back as they were written, in small letters; the vocabulary turns unknown ones into [UNK].
    """
    written = sentence.split()
    words = [word for word in map(plain, written) if word]
    remarks = []
    if words != written:
        remarks.append("Capitals and punctuation are left out.")
    if len(words) > MOST_TOKENS:
        remarks.append(f"The sentence is long: its first {MOST_TOKENS} words are used.")
    words = words[:MOST_TOKENS]
    unknown = [word for word in dict.fromkeys(words) if word not in VOCABULARY.ids]
    if unknown:
        remarks.append(
            f"Not among the {len(WORDS)} words that it knows, and so read as [UNK]: {named(unknown)}. [UNK] is a "
            "token like any other: selected, it is a target."
        )
    return ReadSentence(tuple(words), tuple(remarks))


def plain(word: str) -> str:
    """Take punctuation off a word, and its capitals unless it is a special token."""
    bare = word.strip(MARKS)
    return bare if bare in SPECIALS else bare.lower()


def named(words: list[str]) -> str:
    """List the first few words, long ones cut short."""
    short = [
        word if len(word) <= LONGEST_NAMED else f"{word[: LONGEST_NAMED - 1]}…" for word in words[:MOST_NAMED]
    ]
    more = len(words) - len(short)
    return ", ".join(short) + (f" and {more} more" if more else "")
