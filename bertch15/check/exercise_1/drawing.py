"""The matrices of exercise 1, drawn by the rule, and what each fault would draw instead.

Nothing but the rule stands here: neither a matrix nor a count.
"""

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

TOKENS = ["[CLS]", "the", "wug", "is", "calm", "[SEP]", "[PAD]", "[PAD]"]
SELECTED = TOKENS.index("wug")
PADDING = torch.tensor([token == "[PAD]" for token in TOKENS], device="cpu")
KINDS = ("causal", "full")

FAULTS = {
    "turned": "The triangle is turned round: it opens what stands to the right of the query and closes the past.",
    "exchanged": "Rows and columns are exchanged: the query is the row, the key the column. So of [PAD] it is the "
    "column that is closed.",
    "other kind": "",
    "padding open": "Padding keys are open: no query should read [PAD], so its columns are closed.",
    "rows closed": "The rows of [PAD] are closed. Padding is closed as a key, not as a query: nobody reads what "
    "such a row gives, and a softmax over nothing is not a number.",
    "diagonal closed": "The diagonal is closed: a query may read its own position too.",
    "selected closed": "The selected word's column is closed. Selection says what is scored, and [MASK] is a "
    "token that the others read: neither closes a key.",
    "frame closed": "The columns of [CLS] and [SEP] are closed. They are never selected, and they are read like "
    "any other token.",
    "inverted": "The matrix is inverted: True should mean that the query may read the key, and here it means "
    "that it may not.",
}
OTHER_KIND = {
    "causal": "Queries read what stands to their right: a causal matrix opens the past and the position itself.",
    "full": "There is a triangle in the full matrix: with full visibility a query reads to both sides.",
}
"""What each fault says; "other kind" says it by the kind that was asked for."""


def drawn(kind: str, padding: Tensor = PADDING, faults: Sequence[str] = ()) -> Tensor:
    """Draw a matrix by the rule, with some faults: padding (T,) bool -> visible (T, T) bool."""
    length = len(padding)
    past = torch.ones(length, length, dtype=torch.bool).tril()
    triangle = (kind == "causal") != ("other kind" in faults)
    visible = past if triangle else torch.ones_like(past)
    if "turned" in faults:
        visible = visible.T.clone()
    if "padding open" not in faults:
        visible = visible & ~padding
    if "rows closed" in faults:
        visible = visible & ~padding[:, None]
    if "diagonal closed" in faults:
        visible = visible & ~torch.eye(length, dtype=torch.bool)
    if "selected closed" in faults:
        visible = visible & (torch.arange(length) != SELECTED)
    if "frame closed" in faults:
        visible = visible & torch.tensor([token not in ("[CLS]", "[SEP]") for token in TOKENS])
    if "exchanged" in faults:
        visible = visible.T
    return ~visible if "inverted" in faults else visible


def story(kind: str, found: Tensor) -> str:
    """Say which faults draw this matrix (T, T): the fewest that do, and "" where no three do."""
    for count in (1, 2, 3):
        for faults in combinations(FAULTS, count):
            if torch.equal(found, drawn(kind, faults=faults)):
                return " ".join(FAULTS[fault] or OTHER_KIND[kind] for fault in faults)
    return ""
