"""The slider over the snapshots: it moves by hand, by the player's link and from code, and leaves nothing."""

import ipywidgets as widgets
import pytest

from bertch15.demonstrations.coming_apart.controls import ComingApart, coming_apart
from bertch15.demonstrations.coming_apart.view import apart_view
from bertch15.geometry import Cosines
from bertch15.trajectory import Apart, Moment

pytestmark = pytest.mark.usefixtures("state_guard")


def run() -> Apart:
    def moment(step: int) -> Moment:
        return Moment(step, ((-step, 0.0), (step, 1.0)), Cosines(step / 100, -step / 100), 4.0, 0.5)

    return Apart(("zeru", "tosa"), (0, 1), tuple(moment(step) for step in (0, 5, 60)))


def test_it_starts_at_the_end_and_follows_the_slider():
    shown = coming_apart(run())
    assert shown.text.startswith("after update 60: within 0.6000")
    shown.controls["update"].value = 5
    assert shown.text == apart_view(run(), 5).text
    assert shown.picture.value == apart_view(run(), 5).html
    shown.set(update=0)
    assert shown.text.startswith("before the first update")


def test_the_slider_is_labelled_with_the_update():
    control = coming_apart(run()).controls["update"]
    assert control.description == "after update"
    assert control.options == (0, 5, 60)


def test_the_player_moves_the_slider_through_all_snapshots():
    shown = coming_apart(run())
    assert (shown.player.min, shown.player.max, shown.player.value, shown.player.step) == (0, 2, 2, 1)
    source, target = shown.link.source, shown.link.target
    assert source == (shown.player, "value")
    assert target == (shown.controls["update"], "index")
    said = []
    for place in range(3):
        shown.controls["update"].index = place  # what the link does in the browser
        said.append(shown.text.split(":")[0])
    assert said == ["before the first update", "after update 5", "after update 60"]


def test_an_update_without_a_snapshot_moves_nothing():
    shown = coming_apart(run())
    with pytest.raises(ValueError, match="update does not take 7"):
        shown.set(update=7)
    assert shown.text.startswith("after update 60")


def test_a_notebook_gets_the_widgets_and_the_text():
    bundle = coming_apart(run())._repr_mimebundle_()
    assert bundle["text/plain"].startswith("after update 60")
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_the_player_is_on_the_page():
    shown = coming_apart(run())
    assert shown.player in shown.box.children


def test_a_hundred_of_them_moved_a_hundred_times_leave_nothing():
    before = len(widgets.widget._instances)
    for _ in range(100):
        coming_apart(run()).close()
    shown: ComingApart = coming_apart(run())
    alive = len(widgets.widget._instances)
    for turn in range(100):
        shown.controls["update"].index = turn % 3
    assert len(widgets.widget._instances) == alive
    shown.close()
    assert len(widgets.widget._instances) == before
