"""The frame of the demonstrations: controls move it, errors are shown in it, and nothing is left behind."""

import ipywidgets as widgets
import pytest

from bertch15.demonstrations.frame.controls import Demonstration, choice, slider, whole
from bertch15.demonstrations.frame.view import View, panel, picture, table


def divided(rate: float, parts: int) -> View:
    """A view that cannot be had for no parts."""
    return View(panel(f"{rate / parts:.3f}"), f"{rate} by {parts} is {rate / parts:.3f}")


def example() -> Demonstration:
    return Demonstration(divided, {"rate": slider("rate", 0.5, 0.0, 1.0, 0.05), "parts": whole("parts", 2, 0, 9)})


def test_what_is_shown_follows_each_control() -> None:
    demonstration = example()
    assert demonstration.text == "0.5 by 2 is 0.250"
    demonstration.controls["rate"].value = 1.0
    assert demonstration.text == "1.0 by 2 is 0.500"
    assert "0.500" in demonstration.picture.value


def test_several_controls_move_at_once_and_paint_once() -> None:
    seen = []

    def counted(rate: float, parts: int) -> View:
        seen.append((rate, parts))
        return divided(rate, parts)

    demonstration = example()
    demonstration.view = counted
    demonstration.set(rate=0.8, parts=4)
    assert seen == [(0.8, 4)]
    assert demonstration.text == "0.8 by 4 is 0.200"


@pytest.mark.parametrize(
    ("values", "complaint"),
    [({"colour": 1}, "no control is named"), ({"rate": 2.0}, "rate does not take 2.0"), ({"parts": "x"}, "parts")],
)
def test_what_a_control_does_not_take_moves_nothing(values: dict, complaint: str) -> None:
    demonstration = example()
    with pytest.raises(ValueError, match=complaint):
        demonstration.set(**values)
    assert demonstration.values == {"rate": 0.5, "parts": 2}
    demonstration.controls["rate"].value = 0.4
    assert demonstration.text == "0.4 by 2 is 0.200", "the controls must still be listened to"


def test_an_error_is_shown_and_goes_with_the_next_change() -> None:
    demonstration = example()
    demonstration.controls["parts"].value = 0
    assert demonstration.text.startswith("ZeroDivisionError")
    assert "ZeroDivisionError" in demonstration.picture.value
    demonstration.controls["parts"].value = 1
    assert demonstration.text == "0.5 by 1 is 0.500"


def test_an_error_in_the_first_painting_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        Demonstration(divided, {"rate": slider("rate", 0.5, 0, 1, 0.1), "parts": whole("parts", 0, 0, 9)})


def test_a_hundred_of_them_moved_a_hundred_times_leave_nothing() -> None:
    before = len(widgets.widget._instances)
    for _ in range(100):
        example().close()
    one = example()
    alive = len(widgets.widget._instances)
    for turn in range(100):
        one.controls["rate"].value = turn / 100
    assert len(widgets.widget._instances) == alive
    one.close()
    assert len(widgets.widget._instances) == before


def test_closing_twice_is_closing_once() -> None:
    one = example()
    one.close()
    one.close()
    assert one.closed


def test_a_notebook_gets_the_widgets_and_the_text() -> None:
    bundle = example()._repr_mimebundle_()
    assert set(bundle) == {"application/vnd.jupyter.widget-view+json", "text/plain"}
    assert bundle["text/plain"] == "0.5 by 2 is 0.250"


def test_text_cannot_become_markup() -> None:
    assert "<b>" not in table(["<b>"], [["<b>", "<b>"]])
    assert "<b>" not in picture(1, 1, "<b>", []).replace("<svg", "")


def test_every_control_has_a_name() -> None:
    assert choice("which", ["a", "b"], "b").description == "which"
    assert all(control.description for control in example().controls.values())
