"""The controls of the mask policy."""

import ipywidgets as widgets

from bertch15.demonstrations.frame.controls import WIDE, Demonstration, choice, slider, whole
from bertch15.demonstrations.mask_policy.model import DRAWS, MOST_DRAWS
from bertch15.demonstrations.mask_policy.view import policy_view
from bertch15.demonstrations.mask_policy.words import SENTENCES

FIRST_SHOWN = 715  # a draw of the first sentence in which each branch is met once


def mask_policy() -> Demonstration:
    """Give the demonstration of the mask policy.

    Its controls: sentence, own (a sentence of the reader's own), rate, mask_share, random_share (all in [0, 1]),
    redraw (0 to 999), draws (1 to 2,000, how many are counted).
    """
    controls = {
        "sentence": choice("sentence", SENTENCES, SENTENCES[0]),
        "own": widgets.Text("", description="or your own", placeholder="type words here", style=WIDE),
        "rate": slider("selection rate", 0.15, 0.0, 1.0, 0.01),
        "redraw": whole("redraw", FIRST_SHOWN, 0, 999),
        "mask_share": slider("[MASK] share", 0.8, 0.0, 1.0, 0.05),
        "random_share": slider("random share", 0.1, 0.0, 1.0, 0.05),
        "draws": whole("draws counted", DRAWS, 1, MOST_DRAWS),
    }
    for name in ("sentence", "own"):
        controls[name].layout.width = "44em"
    rows = [["sentence"], ["own"], ["rate", "redraw"], ["mask_share", "random_share"], ["draws"]]
    return Demonstration(policy_view, controls, rows)
