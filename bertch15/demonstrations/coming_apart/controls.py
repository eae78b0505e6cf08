"""Families come apart, moved by hand or played: a slider over the snapshots of one pretraining run."""

from functools import partial

import ipywidgets as widgets

from bertch15.demonstrations.coming_apart.view import apart_view
from bertch15.demonstrations.frame.controls import WIDE, Demonstration
from bertch15.trajectory import Apart

MILLISECONDS = 300
"""From one snapshot to the next while playing."""


class ComingApart(Demonstration):
    """The demonstration with its slider, `update`, and a player that moves the slider in the browser."""

    def __init__(self, apart: Apart) -> None:
        steps = [moment.step for moment in apart.moments]
        update = widgets.SelectionSlider(
            options=steps, value=steps[-1], description="after update", style=WIDE, layout={"width": "36em"}
        )
        super().__init__(partial(apart_view, apart), {"update": update})
        self.player = widgets.Play(
            value=len(steps) - 1, min=0, max=len(steps) - 1, interval=MILLISECONDS, description="play the run"
        )
        self.link = widgets.jslink((self.player, "value"), (update, "index"))
        self.box.children = (self.player, *self.box.children)

    def close(self) -> None:
        """Take the demonstration off the page and give its widgets back."""
        self.link.close()
        super().close()


def coming_apart(apart: Apart) -> ComingApart:
    """Show how the families of a pretraining run come apart; it starts at the last snapshot."""
    return ComingApart(apart)
