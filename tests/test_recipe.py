import json
from dataclasses import FrozenInstanceError, asdict, fields, replace
from typing import Any

import pytest

from bertch15.corruption import Policy
from bertch15.language import CueNoise, make_language
from bertch15.recipe import SEEDS, Recipe

pytestmark = pytest.mark.usefixtures("state_guard")

CHAPTER: dict[str, Any] = {
    "corpus_seed": 6050,
    "noise": {"kind": "fixed", "templates": (6, 7), "count": 2, "probability": 0.25},
    "exposure": 0,
    "shuffled": False,
    "width": 48,
    "heads": 4,
    "inner": 96,
    "blocks": 2,
    "visibility": "full",
    "objective": "masked",
    "policy": {
        "rate": 0.15, "mask_share": 0.8, "random_share": 0.1, "eligible": "ordinary", "pool": "source"
    },
    "static_masks": 0,
    "decoder": "untied",
    "optimiser": "adam",
    "rate": 1e-3,
    "weight_decay": 0.0,
    "clip": 1.0,
    "updates": 600,
    "batch": 64,
    "budgets": (1, 2, 4),
    "adaptation": "full",
    "adaptation_updates": 160,
    "encoder_rate": 2e-4,
    "head_rate": 2e-3,
    "readout": 4,
}  # fmt: skip

CHANGED = Recipe(
    corpus_seed=1,
    noise=CueNoise("drawn", templates=(0, 3), count=1, probability=0.5),
    exposure=3,
    shuffled=True,
    width=32,
    heads=2,
    inner=64,
    blocks=3,
    visibility="causal",
    objective="next token",
    policy=Policy(rate=0.4, mask_share=0.5, random_share=0.25, eligible="padding", pool="vocabulary"),
    static_masks=5,
    decoder="tied source rows",
    optimiser="adamw",
    rate=3e-3,
    weight_decay=0.01,
    clip=None,
    updates=7,
    batch=16,
    budgets=(3, 19),
    adaptation="probe",
    adaptation_updates=11,
    encoder_rate=1e-5,
    head_rate=0.5,
    readout=0,
)


def test_the_defaults_are_the_chapters_constants():
    assert asdict(Recipe()) == CHAPTER


def test_the_replicates_are_those_of_the_chapter(trace: dict[str, Any]):
    assert SEEDS == (6050, 6051, 6052, 6053, 6054)
    assert [str(seed) for seed in SEEDS] == list(trace["replicates"])


def test_a_recipe_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Recipe().updates = 1  # type: ignore[misc]


def test_an_experiment_is_the_chapter_with_one_field_replaced():
    experiment = replace(Recipe(), policy=Policy(mask_share=0.0, random_share=0.0))
    values = asdict(experiment)
    assert values.pop("policy")["mask_share"] == 0
    assert values == {name: value for name, value in CHAPTER.items() if name != "policy"}
    assert experiment != Recipe()
    assert replace(experiment, policy=Policy()) == Recipe()


def test_replacing_checks_the_new_value_too():
    with pytest.raises(ValueError, match="readout must be a position in 0 to 9, got 10"):
        replace(Recipe(), readout=10)


def test_equal_recipes_can_stand_for_each_other_as_keys():
    assert len({Recipe(), Recipe(budgets=(1, 2, 4)), CHANGED}) == 2


def test_every_field_survives_the_way_through_json():
    for field in fields(Recipe):
        assert getattr(CHANGED, field.name) != getattr(Recipe(), field.name), field.name
    for recipe in (Recipe(), CHANGED):
        back = Recipe.from_json(recipe.to_json())
        assert back == recipe
        assert hash(back) == hash(recipe)
        assert isinstance(back.budgets, tuple)


def test_the_json_names_every_field():
    values = json.loads(CHANGED.to_json())
    assert list(values) == list(CHAPTER)
    assert values["clip"] is None
    assert values["budgets"] == [3, 19]
    assert values["policy"]["rate"] == 0.4
    assert values["noise"]["kind"] == "drawn"


def test_fields_left_out_take_the_chapters_value():
    assert Recipe.from_json("{}") == Recipe()
    text = '{"updates": 3, "policy": {"rate": 0.3}, "noise": {"kind": "flips"}}'
    assert Recipe.from_json(text) == Recipe(updates=3, policy=Policy(rate=0.3), noise=CueNoise("flips"))


def test_an_unknown_field_is_named():
    with pytest.raises(
        ValueError, match=r"no field \['learning_rate', 'steps'\]; it has \['corpus_seed', 'noise'"
    ):
        Recipe.from_json('{"steps": 3, "learning_rate": 1, "updates": 3}')


@pytest.mark.parametrize("part", ["policy", "noise"])
def test_an_unknown_field_of_a_part_is_named(part: str):
    with pytest.raises((TypeError, ValueError), match="fraction"):
        Recipe.from_json(json.dumps({part: {"fraction": 0.3}}))


def test_a_bad_value_is_refused_from_json_as_well():
    with pytest.raises(ValueError, match="heads must be at least 1, got 0"):
        Recipe.from_json('{"heads": 0}')
    with pytest.raises(ValueError, match=r"rate must lie in \[0, 1\], got 15"):
        Recipe.from_json('{"policy": {"rate": 15}}')


NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("visibility", "both", "must be one of .*'full', 'causal', 'own', 'unpadded'.*, got 'both'"),
        ("objective", "mlm", "must be one of .*'masked', 'next token'.*, got 'mlm'"),
        ("decoder", "shared", "must be one of .*'untied', 'tied', 'tied source rows'.*, got 'shared'"),
        ("optimiser", "Adam", "must be one of .*'adam', 'adamw', 'sgd'.*, got 'Adam'"),
        ("adaptation", "frozen", "must be one of .*'full', 'probe'.*, got 'frozen'"),
        *((name, 0, "must be at least 1, got 0") for name in ("width", "heads", "inner", "blocks", "batch")),
        *((name, -1, "must be at least 0, got -1") for name in ("updates", "adaptation_updates", "static_masks")),
        ("weight_decay", -0.01, "must be at least 0, got -0.01"),
        ("weight_decay", NAN, "must be at least 0, got nan"),
        *((name, 0, "must be above 0, got 0") for name in ("rate", "encoder_rate", "head_rate")),
        *((name, -1e-3, "must be above 0, got -0.001") for name in ("rate", "encoder_rate", "head_rate")),
        *((name, NAN, "must be above 0, got nan") for name in ("rate", "encoder_rate", "head_rate")),
        ("clip", 0, "must be above 0 or None, got 0"),
        ("clip", -1.0, "must be above 0 or None, got -1.0"),
        ("clip", NAN, "must be above 0 or None, got nan"),
        ("width", 50, "must be a multiple of heads, got 50 and 4"),
        ("exposure", -1, "must lie in 0 to 8 sentences, got -1"),
        ("exposure", 9, "must lie in 0 to 8 sentences, got 9"),
        ("budgets", (), r"must be distinct counts of 1 to 19 words per family, got \(\)"),
        ("budgets", (0, 1), r"must be distinct counts of 1 to 19 .*, got \(0, 1\)"),
        ("budgets", (4, 20), r"must be distinct counts of 1 to 19 .*, got \(4, 20\)"),
        ("readout", -1, "must be a position in 0 to 9, got -1"),
        ("readout", 10, "must be a position in 0 to 9, got 10"),
    ],
)
def test_a_bad_value_is_refused_by_name_with_what_is_allowed(name: str, value: Any, message: str):
    with pytest.raises(ValueError, match=f"^{name} {message}"):
        Recipe(**{name: value})


def test_the_width_must_be_divided_evenly_among_the_heads():
    with pytest.raises(ValueError, match="width must be a multiple of heads, got 48 and 5"):
        Recipe(heads=5)
    assert Recipe(width=50, heads=5).width == 50


@pytest.mark.parametrize(
    "values",
    [
        {"width": 1, "heads": 1, "inner": 1, "blocks": 1, "batch": 1},
        {"updates": 0, "adaptation_updates": 0, "static_masks": 0, "weight_decay": 0},
        {"exposure": 8, "budgets": (1, 19), "readout": 9},
        {"exposure": 0, "readout": 0, "clip": 1e-9, "rate": 1e-12},
    ],
)
def test_values_at_the_ends_of_their_ranges_are_accepted(values: dict[str, Any]):
    recipe = Recipe(**values)
    assert {name: getattr(recipe, name) for name in values} == values


def test_budgets_may_come_as_a_list():
    assert Recipe(budgets=[1, 2]).budgets == (1, 2)  # type: ignore[arg-type]


def test_the_recipe_gives_its_own_language():
    assert Recipe().language() == make_language()
    noise = CueNoise("drawn", count=3)
    for changed, arguments in (
        ({"corpus_seed": 1}, {"seed": 1}),
        ({"noise": noise}, {"noise": noise}),
        ({"exposure": 2}, {"exposure": 2}),
        ({"shuffled": True}, {"shuffled": True}),
    ):
        language = replace(Recipe(), **changed).language()
        assert language == make_language(**arguments)
        assert language != make_language()
