"""The sliders of span corruption, without a browser: what they are set to is what is shown."""

import ipywidgets as widgets
import pytest

from bertch15.demonstrations.span_corruption.controls import span_corruption
from bertch15.demonstrations.span_corruption.model import SENTENCES
from bertch15.demonstrations.span_corruption.view import span_view

pytestmark = pytest.mark.usefixtures("one_thread", "state_guard")


def shown(demonstration) -> str:
    """What is shown, the picture's and the text's sentence of counts being the same."""
    (counts,) = [line for line in demonstration.text.splitlines() if line.startswith(("Removed", "These spans"))]
    assert counts in demonstration.picture.value
    return counts


def test_it_begins_with_the_published_settings_on_the_pages_sentence() -> None:
    demonstration = span_corruption()
    assert demonstration.values == {"sentence": SENTENCES[0], "density": 0.15, "mean_span": 3.0, "redraw": 0}
    assert shown(demonstration).startswith("Removed: 1 of 7 tokens, in 1 span (lengths: 1)")


def test_each_control_moves_what_is_shown() -> None:
    demonstration = span_corruption()
    demonstration.controls["density"].value = 0.5
    assert shown(demonstration).startswith("Removed: 4 of 7 tokens, in 1 span (lengths: 4)")
    demonstration.controls["mean_span"].value = 2.0
    assert shown(demonstration).startswith("Removed: 4 of 7 tokens, in 2 spans")
    drawn = set()
    for redraw in range(40):
        demonstration.controls["redraw"].value = redraw
        drawn.add(demonstration.text.splitlines()[1])
    assert len(drawn) == 6  # 4 removed cut in 2: 3 ways; 3 kept: 2 ways
    demonstration.controls["sentence"].value = SENTENCES[1]
    assert shown(demonstration).startswith("Removed: 5 of 10 tokens, in 2 spans")  # 5 / 2 = 2.5, to the even 2


def test_what_cannot_be_is_said_and_the_next_move_mends_it() -> None:
    demonstration = span_corruption().set(density=0.5, mean_span=1.0)
    assert "only 3 tokens stay" in shown(demonstration)
    demonstration.controls["mean_span"].value = 1.5  # 4 / 1.5 = 2.67, 3 spans before which 3 tokens stay
    assert shown(demonstration).startswith("Removed: 4 of 7 tokens, in 3 spans")


def test_every_setting_can_be_reached_and_none_is_an_error() -> None:
    demonstration = span_corruption()
    density, mean_span = demonstration.controls["density"], demonstration.controls["mean_span"]
    assert (density.min, density.max, mean_span.min, mean_span.max) == (0, 1, 1, 10)
    for sentence in SENTENCES:
        for step in range(21):
            for mean in (mean_span.min, 1.5, mean_span.max):
                demonstration.set(sentence=sentence, density=min(step * density.step, density.max), mean_span=mean)
                assert "Error" not in demonstration.text
                assert demonstration.text == span_view(*demonstration.values.values()).text


def test_every_control_has_a_label_of_its_own() -> None:
    labels = [control.description for control in span_corruption().controls.values()]
    assert labels == ["sentence", "density", "mean span length", "redraw"]


def test_a_hundred_of_them_moved_a_hundred_times_leave_nothing() -> None:
    before = len(widgets.widget._instances)
    for _ in range(100):
        span_corruption().close()
    one = span_corruption()
    alive = len(widgets.widget._instances)
    for turn in range(100):
        one.controls["redraw"].value = turn
        one.controls["density"].value = turn / 100
    assert len(widgets.widget._instances) == alive
    one.close()
    assert len(widgets.widget._instances) == before
