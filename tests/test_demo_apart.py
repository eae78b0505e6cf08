"""Families come apart, as a pure function: what is seen at each snapshot, and that only the words move."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch

from bertch15.demonstrations.coming_apart.view import apart_view
from bertch15.fast.training import pretrain_together
from bertch15.geometry import Cosines, word_geometry, word_states
from bertch15.pretraining import Pretrained, load_encoder, reproducible
from bertch15.recipe import Recipe
from bertch15.trajectory import Apart, Moment, come_apart, loss_at, plane_of, steps_of

pytestmark = pytest.mark.usefixtures("state_guard")

SHORT = replace(Recipe(), updates=12)


def pretrained(recipe: Recipe, snapshots: tuple[int, ...]) -> Pretrained:
    with reproducible():
        return pretrain_together(recipe, [6050], snapshots)[0]


@cache
def short() -> Pretrained:
    return pretrained(SHORT, (0, 3, 12))


@cache
def chapter() -> Apart:
    return come_apart(pretrained(Recipe(), steps_of(600)))


# What is looked at


def test_some_twenty_five_snapshots_denser_at_the_start():
    steps = steps_of(600)
    assert (steps[0], steps[-1], len(steps)) == (0, 600, 25)
    gaps = [after - before for before, after in pairwise(steps)]
    assert min(gaps) > 0
    assert gaps[0] < gaps[10] < gaps[-1]


@pytest.mark.parametrize(("updates", "steps"), [(0, (0,)), (1, (0, 1)), (5, (0, 5)), (7, (0, 5, 7))])
def test_a_short_run_is_looked_at_as_far_as_it_goes(updates: int, steps: tuple[int, ...]):
    assert steps_of(updates) == steps
    assert steps_of(1000)[-2:] == (600, 1000)


def test_the_words_are_the_covered_ones_with_their_families():
    language = SHORT.language()
    run = come_apart(short())
    assert run.words == (*language.covered[0], *language.covered[1])
    assert run.families == (0,) * 20 + (1,) * 20


def test_the_cosines_are_those_of_the_geometry():
    for moment in come_apart(short()).moments:
        assert moment.cosines == pytest.approx(word_geometry(SHORT, short().snapshots[moment.step]), abs=1e-6)


def test_the_chapters_run_begins_and_ends_at_the_printed_numbers(ledger: dict):
    printed = {row["id"]: row["printed"] for row in ledger["rows"]}
    for step, row in ((0, "geometry.initial"), (600, "geometry.after")):
        within, between = chapter().at(step).cosines
        assert printed[row].endswith(f"{within:.4f} / {between:.4f}")
    assert chapter().at(0).loss == pytest.approx(4.971, abs=1e-3)


def test_the_families_part_later_than_the_loss_falls():
    start, early, end = (chapter().at(step) for step in (0, 200, 600))
    assert (start.loss - early.loss) / (start.loss - end.loss) > 4 / 5
    risen = [m.cosines.within - start.cosines.within for m in (early, end)]
    assert risen[0] / risen[1] < 1 / 5


# The loss


@pytest.mark.parametrize(("step", "mean"), [(0, 100.0), (1, 100.0), (3, 101.0), (20, 109.5), (25, 114.5)])
def test_the_loss_is_the_mean_of_at_most_twenty_updates_before(step: int, mean: float):
    assert loss_at(replace(short(), losses=torch.arange(100.0, 130.0)), step) == mean


def test_a_run_without_updates_has_no_loss():
    run = come_apart(pretrained(replace(SHORT, updates=0), (0,)))
    assert [(m.step, m.loss) for m in run.moments] == [(0, 0.0)]
    assert "loss of the first batch: 0.00" in apart_view(run, 0).text


# The plane


def test_the_plane_holds_the_two_widest_directions_and_has_its_signs_fixed():
    states = torch.zeros(6, 5)
    states[:, 3] = torch.tensor([6.0, 6.0, 6.0, -6.0, -6.0, -6.0])  # the widest, which parts the families
    states[:, 1] = torch.tensor([1.0, 1.0, -2.0, 0.5, 0.5, -1.0])
    families = torch.tensor([0, 0, 0, 1, 1, 1])
    for mirrored in (states, -states):
        places = mirrored @ plane_of(mirrored, families)
        assert places[:, 0].tolist() == pytest.approx([-6, -6, -6, 6, 6, 6], abs=1e-5)
        assert places[:, 1].tolist() == pytest.approx([-1, -1, 2, -0.5, -0.5, 1], abs=1e-5)
    plane = plane_of(states, families)
    assert (plane.T @ plane).tolist() == [pytest.approx([1, 0], abs=1e-6), pytest.approx([0, 1], abs=1e-6)]


def test_all_snapshots_share_the_plane_of_the_last():
    run = come_apart(short())
    centred = []
    for step in (0, 12):
        encoder = load_encoder(SHORT, short().snapshots[step])
        states = word_states(encoder, SHORT.language(), run.words, SHORT.readout)
        centred.append(states - states.mean(0))
    families = torch.tensor(run.families)
    own, of_last = (centred[0] @ plane_of(states, families) for states in centred)
    assert (own - of_last).abs().max() > 0.1, "the two planes are so close that this shows nothing"
    assert (torch.tensor(run.at(0).points) - of_last).abs().max() < 1e-5


def test_the_share_is_that_of_the_two_largest_variances():
    language, run = SHORT.language(), come_apart(short())
    states = word_states(load_encoder(SHORT, short().snapshots[12]), language, run.words, SHORT.readout).numpy()
    variances = np.linalg.eigvalsh(np.cov(states.T.astype(float)))
    assert run.at(12).share == pytest.approx(variances[-2:].sum() / variances.sum(), abs=1e-4)
    assert 0 < run.at(0).share < run.at(12).share + 1e-9 < 1


def test_points_are_centred():
    for moment in come_apart(short()).moments:
        assert np.mean(moment.points, axis=0).tolist() == pytest.approx([0, 0], abs=1e-5)


# What is shown


def by_hand() -> Apart:
    still = Moment(0, ((0.0, 0.0), (0.5, 0.0)), Cosines(-0.1, -0.2), 4.9, 0.1)
    moved = Moment(40, ((-2.0, 0.0), (1.0, 1.0)), Cosines(0.5, -0.5), 1.25, 0.75)
    return Apart(("zeru", "tosa"), (0, 1), (still, moved))


def test_the_text_says_which_updates_the_loss_belongs_to():
    assert apart_view(by_hand(), 0).text == (
        "before the first update: within -0.1000, between -0.2000; loss of the first batch: 4.90; "
        "the plane holds 10% of the spread"
    )
    assert apart_view(by_hand(), 40).text == (
        "after update 40: within 0.5000, between -0.5000; mean loss of updates 21 to 40: 1.25; "
        "the plane holds 75% of the spread"
    )
    few = replace(by_hand().moments[1], step=5)
    assert "mean loss of updates 1 to 5: " in str(few)


def test_each_family_has_a_colour_and_a_shape_and_each_word_a_place_on_one_scale():
    scale = (330 / 2 - 8) / 2.0  # pixels, for the farthest coordinate of any moment
    still, moved = (apart_view(by_hand(), step).html for step in (0, 40))
    assert f'<circle cx="{14 + 165:.1f}" cy="{26 + 165:.1f}" r="4.5" fill="#1f5fa8"' in still
    assert f'<circle cx="{14 + 165 - 2 * scale:.1f}" cy="{26 + 165:.1f}" r="4.5" fill="#1f5fa8"' in moved
    square = (
        f'<rect x="{14 + 165 + scale - 4:.1f}" y="{26 + 165 - scale - 4:.1f}" width="8" height="8" fill="#e08a1e"'
    )
    assert square in moved
    for shown in (still, moved):
        assert shown.count("<title>zeru</title>") == shown.count("<title>tosa</title>") == 1


def test_the_charts_are_the_same_at_every_moment_but_for_the_mark():
    still, moved = (apart_view(by_hand(), step).html for step in (0, 40))
    curves = [[part.split("/>")[0] for part in shown.split("<polyline")[1:]] for shown in (still, moved)]
    assert len(curves[0]) == 3
    assert curves[0] == curves[1]
    assert still != moved


def test_a_snapshot_that_was_not_taken_is_refused():
    with pytest.raises(ValueError, match=r"no snapshot after 41 updates; there are \[0, 40\]"):
        apart_view(by_hand(), 41)
    with pytest.raises(ValueError, match="the run has no snapshots"):
        come_apart(replace(short(), snapshots={}))


def test_words_that_do_not_differ_are_shown_in_one_place():
    same = replace(by_hand(), moments=(replace(by_hand().moments[0], points=((0.0, 0.0), (0.0, 0.0))),))
    assert same.reach == 0
    assert "nan" not in apart_view(same, 0).html
