"""The controls of the visibility explorer."""

import ipywidgets as widgets

from bertch15.demonstrations.frame.controls import WIDE, WIDTH, Demonstration, choice
from bertch15.demonstrations.visibility_explorer.model import reading
from bertch15.demonstrations.visibility_explorer.view import visibility_view


def visibility_explorer() -> Demonstration:
    """Give the visibility explorer.

    Its controls: query (a position, 0 to 5), kind ("full" or "causal"), padding_closed (True or False).
    """
    positions = [(f"{position} {token}", position) for position, token in enumerate(reading(0).tokens)]
    controls = {
        "query": widgets.SelectionSlider(
            options=positions, value=2, description="query", style=WIDE, layout=WIDTH
        ),
        "kind": choice("visibility", ["full", "causal"], "full"),
        "padding_closed": choice("padding keys", [("closed", True), ("open", False)], True),
    }
    return Demonstration(visibility_view, controls, [["query"], ["kind", "padding_closed"]])
