"""Figure 15.2: the flow of a thousand positions. Expected counts are the chapter's, written out here."""

import io

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import Rectangle

from bertch15.corruption import Policy
from bertch15.figures.flow import flow
from bertch15.figures.style import png


def panels(figure: Figure) -> tuple[Axes, Axes]:
    first, branch = figure.axes
    return first, branch


def bars(axes: Axes) -> dict[str, float]:
    """The bars of a panel by the name below each."""
    names = [label.get_text() for label in axes.get_xticklabels()]
    places = axes.get_xticks().tolist()
    drawn = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert [bar.get_x() + bar.get_width() / 2 for bar in drawn] == pytest.approx(places)
    return {name: bar.get_height() for name, bar in zip(names, drawn, strict=True)}


def counts_on_bars(axes: Axes) -> list[tuple[str, float, float]]:
    """The text of each count and the point it is written at."""
    return [(text.get_text(), *text.xy) for text in axes.texts]  # type: ignore[attr-defined]  # annotations


def test_a_thousand_positions_under_the_chapters_policy() -> None:
    first, branch = panels(flow()[0])
    assert bars(first) == pytest.approx({"not selected": 850, "selected": 150})
    assert bars(branch) == pytest.approx({"[MASK]": 120, "random": 15, "unchanged": 15})
    assert "1,000 eligible" in first.get_title(loc="left")
    assert "the 150 selected, all scored" in branch.get_title(loc="left")


def test_every_bar_carries_its_count_on_top() -> None:
    first, branch = panels(flow()[0])
    assert counts_on_bars(first) == [("850", 0, pytest.approx(850)), ("150", 1, pytest.approx(150))]
    assert counts_on_bars(branch) == [
        ("120", 0, pytest.approx(120)),
        ("15", 1, pytest.approx(15)),
        ("15", 2, pytest.approx(15)),
    ]
    for axes in (first, branch):
        tallest = max(bars(axes).values())
        assert tallest * 1.08 < axes.get_ylim()[1]  # the count above the tallest bar has room


def test_branches_part_without_colour() -> None:
    _, branch = panels(flow()[0])
    looks = {(bar.get_hatch(), bar.get_facecolor() == (1, 1, 1, 1)) for bar in branch.patches}
    assert len(looks) == 3


def test_the_sentence_holds_the_numbers() -> None:
    sentence = flow()[1]
    for part in ("1,000 eligible", "150 are selected", "850 are not", "120 become [MASK]", "15 a random token"):
        assert part in sentence
    assert "15 stay as they are" in sentence
    assert "All 150 are scored" in sentence


def test_another_policy_and_another_thousand() -> None:
    figure, sentence = flow(Policy(0.4, 0.5, 0.0), 2000)
    first, branch = panels(figure)
    assert bars(first) == pytest.approx({"not selected": 1200, "selected": 800})
    assert bars(branch) == pytest.approx({"[MASK]": 400, "random": 0, "unchanged": 400})
    assert "Of 2,000 eligible positions, 800 are selected and 1,200 are not" in sentence


def test_counts_that_are_not_whole_are_written_with_one_decimal() -> None:
    figure, sentence = flow(Policy(), 11)
    assert [text for text, *_ in counts_on_bars(panels(figure)[0])] == ["9.3", "1.6"]  # 9.35 and 1.65, in binary
    assert "0.2 a random token" in sentence


@pytest.mark.filterwarnings("error")
def test_a_policy_that_selects_nothing_is_drawn_all_the_same() -> None:
    figure, _ = flow(Policy(0.0))
    first, branch = panels(figure)
    assert bars(first) == {"not selected": 1000, "selected": 0}
    assert bars(branch) == {"[MASK]": 0, "random": 0, "unchanged": 0}
    assert imread(io.BytesIO(png(figure))).std() > 0.1  # not a blank picture


def test_it_needs_a_position() -> None:
    with pytest.raises(ValueError, match="eligible must be at least 1 position, got 0"):
        flow(eligible=0)


def test_two_drawings_are_the_same_to_the_byte() -> None:
    assert png(flow()[0]) == png(flow()[0])
