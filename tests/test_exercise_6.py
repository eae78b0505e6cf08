"""Exercise 6: the gallery holds what it says, good audits pass, and a lax or strict audit is told what it does."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bertch15 import check
from bertch15.check.exercise_6.auditing import GALLERIES
from bertch15.check.exercise_6.exhibits.gallery import Exhibit
from bertch15.check.kit import calling
from bertch15.corruption import Count, corrupt
from bertch15.language import make_language
from bertch15.visibility import visibility
from bertch15.vocabulary import CLS, MASK, PAD, SEP

ROOT = Path(__file__).resolve().parent.parent
WORLD = make_language()
IDS, POOL, SIZE = WORLD.source_ids, WORLD.pool, len(WORLD.vocabulary)
NEVER = torch.isin(IDS, torch.tensor([PAD, CLS, SEP]))
EXHIBITS = [(kind, exhibit) for kind, gallery in GALLERIES.items() for exhibit in gallery.exhibits]

pytestmark = pytest.mark.usefixtures("state_guard", "one_thread")


def seed(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def drawn(number: int) -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    draws = seed(number)

    def corrupt_anew(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch = corrupt(ids, POOL, draws)
        return batch.corrupted, batch.selected

    return corrupt_anew


def new_model() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(15)
        return nn.Sequential(nn.Embedding(SIZE, 8), nn.Tanh(), nn.Linear(8, SIZE))


def descended(ids: torch.Tensor, number: int, updates: int) -> dict[str, torch.Tensor]:
    """The weights after so many updates, computed by hand."""
    model, corrupt_anew = new_model(), drawn(number)
    for _ in range(updates):
        corrupted, selected = corrupt_anew(ids)
        model.zero_grad()
        F.cross_entropy(model(corrupted)[selected], ids[selected]).backward()
        for weight in model.parameters():
            assert weight.grad is not None
            weight.data.sub_(0.1 * weight.grad)
    return model.state_dict()


def audit_corruption(candidate, ids=IDS, pool=POOL, deviations=4.0, rounds=40):
    """Judge by everything that the contract says; the tests below leave out one thing or another."""
    draws, never = seed(1), torch.isin(ids, torch.tensor([PAD, CLS, SEP]))
    seen, counts = [], torch.zeros(4)
    for _ in range(rounds):
        mine, stream = ids.clone(), torch.get_rng_state()
        corrupted, selected = candidate(mine, pool, draws)
        assert torch.equal(stream, torch.get_rng_state())
        assert torch.equal(mine, ids)
        assert torch.equal(corrupted[~selected], ids[~selected])
        assert not selected[never].any()
        changed = corrupted != ids
        assert torch.isin(corrupted[changed], torch.cat([pool, torch.tensor([MASK])])).all()
        masked = corrupted == MASK
        seen.append(selected)
        counts += torch.stack([x.sum() for x in (~never, selected, masked, changed & ~masked)])
    eligible, chosen, masks, others = map(int, counts)
    share = 0.1 * (1 - 1 / len(pool))
    rows = [Count("", chosen, eligible, 0.15), Count("", masks, chosen, 0.8), Count("", others, chosen, share)]
    for row in rows:
        low, high = row.bounds(deviations)
        assert low <= row.share <= high
    return not torch.equal(seen[0], seen[1])


def audit_loss(candidate, rates=(0.0, 0.2, 0.7), ids=IDS[:24]):
    draws = seed(2)
    for rate in rates:
        logits = torch.randn(*ids.shape, SIZE, generator=draws, requires_grad=True)
        selected = (torch.rand(ids.shape, generator=draws) < rate) & ~torch.isin(
            ids, torch.tensor([PAD, CLS, SEP])
        )
        mine = ids.clone()
        loss = candidate(logits, mine, selected)
        places = selected.nonzero().tolist()
        terms = [-logits[b, t].log_softmax(-1)[ids[b, t]] for b, t in places]
        assert abs(loss - (sum(terms) / len(terms) if terms else 0)) <= 5e-6
        assert torch.equal(mine, ids)
        if terms:
            assert loss.requires_grad
            (gradient,) = torch.autograd.grad(loss, logits)
            assert gradient[selected].any()
    return True


def with_masks(ids=IDS[:12]):
    batch = ids.clone()
    batch[::2, 2] = MASK
    return batch


def audit_visibility(candidate, batch=None):
    batch = with_masks() if batch is None else batch
    visible = candidate(batch.clone())
    assert visible.dtype == torch.bool
    assert visible.shape == (*batch.shape, batch.shape[1])
    for b, row in enumerate(batch.tolist()):
        assert visible[b].tolist() == [[token != PAD for token in row]] * len(row)
    return True


def audit_training(candidate, updates=4):
    model, ids, stream = new_model(), IDS[:64].clone(), torch.get_rng_state()
    start = deepcopy(model.state_dict())
    before, after = candidate(model, ids, drawn(5), updates)
    assert torch.equal(stream, torch.get_rng_state())
    assert torch.equal(ids, IDS[:64])
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(1)
    for name, expected in descended(IDS[:64], 5, updates).items():
        assert torch.equal(before[name], start[name])
        assert (after[name] - expected).abs().max() < 1e-6
    return True


AUDITS: dict[str, Callable[..., bool]] = {
    "corruption": audit_corruption,
    "loss": audit_loss,
    "visibility": audit_visibility,
    "training": audit_training,
}


def stub(candidate: Any) -> None:
    """A docstring, and nothing done."""
    ...


def told(kind: str, audit: Any) -> tuple[str, str]:
    ((part, state, says),) = check.audit(**{kind: audit}).parts
    assert part == kind
    return state, says


def fails(kind: str, exhibit: Exhibit) -> bool:
    try:
        with torch.random.fork_rng(devices=[]):
            return not AUDITS[kind](exhibit.new())
    except AssertionError:
        return True


@pytest.mark.parametrize(("kind", "exhibit"), EXHIBITS, ids=[f"{kind}: {e.says}" for kind, e in EXHIBITS])
def test_an_exhibit_is_what_its_label_says(kind: str, exhibit: Exhibit) -> None:
    assert fails(kind, exhibit) is not exhibit.sound


@pytest.mark.parametrize("kind", GALLERIES)
def test_there_are_sound_ones_in_many_forms_and_faults_of_many_kinds(kind: str) -> None:
    exhibits = GALLERIES[kind].exhibits
    sound = [exhibit for exhibit in exhibits if exhibit.sound]
    assert len(sound) >= 4
    assert len(exhibits) - len(sound) >= 8
    assert len({exhibit.says for exhibit in exhibits}) == len(exhibits)


def test_an_exhibit_has_no_name_and_no_memory() -> None:
    for _, exhibit in EXHIBITS:
        assert exhibit.new().__name__ == "candidate"
        assert exhibit.new().__doc__ is None
    (static,) = [e for _, e in EXHIBITS if e.says == "masks written once and used again"]
    selections = [static.new()(IDS, POOL, seed(number))[1] for number in (1, 2)]
    assert not torch.equal(*selections)


def test_the_shares_of_the_conditional_fault_are_the_published_ones() -> None:
    # 0.8 and 0.1 of the rest, drawn one after the other: 0.800 / 0.020 / 0.180.
    (fault,) = [e for _, e in EXHIBITS if e.says.startswith("too few random tokens")]
    counts, draws, candidate = torch.zeros(3), seed(3), fault.new()
    for _ in range(60):
        corrupted, selected = candidate(IDS, POOL, draws)
        masked, same = selected & (corrupted == MASK), selected & (corrupted == IDS)
        counts += torch.stack([masked.sum(), (selected & ~masked & ~same).sum(), same.sum()])
    drawn_itself = 0.02 / len(POOL)
    for count, share in zip(counts.tolist(), (0.8, 0.02 - drawn_itself, 0.18 + drawn_itself), strict=True):
        assert Count("", int(count), int(counts.sum()), share).within


def test_the_faults_of_padding_depend_on_padding() -> None:
    # Mean times weights over their sum, and weights spread over a table: wrong in different ways as padding grows.
    says = {e.says: e.new() for kind, e in EXHIBITS if kind == "loss"}
    ids = torch.tensor([[CLS, 7, 8, SEP]])
    logits = torch.randn(1, 4, 10, generator=seed(4))
    selected = ids == 7
    longer = F.pad(ids, (0, 6)), F.pad(selected, (0, 6)), torch.cat([logits, torch.ones(1, 6, 10)], 1)
    for name, candidate in says.items():
        short, long = (
            float(candidate(logits, ids.clone(), selected)),
            float(candidate(longer[2], longer[0], longer[1])),
        )
        depends = name.startswith(("weights", "padding counted", "the sum of the selected divided"))
        assert (abs(short - long) > 1e-3) is depends, name


def test_the_stub_is_not_attempted() -> None:
    for verdict in (check.audit(), check.audit(stub, stub, stub, stub), check.audit(loss=stub)):
        assert {state for _, state, _ in verdict.parts} == {"not attempted"}
        assert verdict.score(12) == 0


def test_the_right_audits_gain_all_points() -> None:
    verdict = check.audit(**AUDITS)
    assert verdict.right, verdict
    assert verdict.score(12) == 12
    assert check.audit(stub, stub, audit_visibility, stub).score(12) == 3


@pytest.mark.parametrize("form", [bool, np.bool_, torch.tensor, lambda said: np.array([said])])
def test_an_audit_answers_in_any_form(form: Callable[[bool], Any]) -> None:
    def audit(candidate: Callable[..., Any]) -> Any:
        batch = with_masks()
        visible = candidate(batch)
        return form(visible.dtype == torch.bool and torch.equal(visible, visibility(batch)))

    assert told("visibility", audit) == ("right", "")


def always(candidate):
    return True


def never(candidate):
    return False


def exact_draws(candidate):
    mine, theirs = seed(6), seed(6)
    expected = corrupt(IDS, POOL, mine)
    corrupted, selected = candidate(IDS.clone(), POOL, theirs)
    return torch.equal(corrupted, expected.corrupted) and torch.equal(selected, expected.selected)


def masks_only(candidate):
    draws, counts = seed(1), torch.zeros(2)
    for _ in range(40):
        corrupted, selected = candidate(IDS.clone(), POOL, draws)
        counts += torch.stack([(corrupted == MASK).sum(), selected.sum()])
    return Count("", int(counts[0]), int(counts[1]), 0.8).within


FULL = IDS[(IDS != PAD).sum(1) == 8][:, :8]


def unpadded_corruption(candidate):
    return audit_corruption(candidate, ids=FULL, rounds=100)


def whole_pool(candidate):
    return audit_corruption(candidate, pool=torch.arange(5, SIZE))


def too_narrow(candidate):
    return audit_corruption(candidate, deviations=0.5)


def always_changed(candidate):
    corrupted, selected = candidate(IDS.clone(), POOL, seed(1))
    return bool((corrupted[selected] != IDS[selected]).all())


def one_call(candidate):
    try:
        return audit_corruption(candidate, rounds=2) or audit_corruption(candidate)
    except AssertionError:
        return True


def unpadded_loss(candidate):
    return audit_loss(candidate, ids=FULL[:24])


def never_nothing(candidate):
    return audit_loss(candidate, rates=(0.2, 0.7))


def last_digits(candidate):
    draws = seed(2)
    for rate in (0.1, 0.2, 0.4, 0.6, 0.8):
        logits = torch.randn(*IDS.shape, SIZE, generator=draws)
        selected = (torch.rand(IDS.shape, generator=draws) < rate) & ~NEVER
        expected = F.cross_entropy(logits[selected], IDS[selected], reduction="sum") / selected.sum()
        if candidate(logits, IDS.clone(), selected) != expected:
            return False
    return True


def value_only(candidate):
    logits = torch.randn(*IDS.shape, SIZE, generator=seed(2))
    expected = F.cross_entropy(logits[~NEVER], IDS[~NEVER])
    return abs(candidate(logits, IDS.clone(), ~NEVER) - expected) < 5e-6


def unpadded_visibility(candidate):
    return audit_visibility(candidate, with_masks(FULL))


def one_sentence(candidate):
    return audit_visibility(candidate, with_masks(IDS[:1]))


def no_masks(candidate):
    return audit_visibility(candidate, IDS[:12])


def count_open(candidate):
    batch = with_masks()
    return int(candidate(batch).sum()) == int(visibility(batch).sum())


def stored_alike(candidate):
    visible = candidate(with_masks())
    return audit_visibility(candidate) and visible.is_contiguous()


def one_update(candidate):
    return audit_training(candidate, updates=1)


def moved(candidate):
    before, after = candidate(new_model(), IDS[:64].clone(), drawn(5), 4)
    return any(not torch.equal(before[name], after[name]) for name in before)


def bitwise(candidate):
    _, after = candidate(new_model(), IDS[:64].clone(), drawn(5), 4)
    return all(torch.equal(after[name], weight) for name, weight in descended(IDS[:64], 5, 4).items())


def storing_nothing(candidate):
    model = new_model()
    candidate(model, IDS[:64].clone(), drawn(5), 4)
    return all(weight.grad is None for weight in model.parameters())


def silent(candidate):
    if audit_visibility(candidate):
        return None


def number(candidate):
    return 1


def careless(candidate):
    return bool((~candidate(with_masks())).any())


WRONG = [
    ("corruption", always, "It calls everything sound: all 13 faults get through"),
    ("loss", always, "It calls everything sound: all 11 faults get through"),
    ("corruption", never, "It calls everything faulty"),
    ("training", never, "It calls everything faulty"),
    ("corruption", exact_draws, "lets one sound function pass and condemns 5"),
    ("corruption", exact_draws, "happens to draw or compute"),
    ("corruption", masks_only, "faults get through: too few random tokens"),
    (
        "corruption",
        unpadded_corruption,
        "1 of 13 faults gets through: padding selected (does your batch hold any?)",
    ),
    ("corruption", whole_pool, "1 of 13 faults gets through: control words"),
    ("corruption", too_narrow, "that keep the contract too"),
    ("corruption", always_changed, "It condemns every sound function"),
    ("corruption", one_call, "everything sound"),
    ("loss", unpadded_loss, "1 of 11 faults gets through: padding counted"),
    ("loss", never_nothing, "1 of 11 faults gets through: no number where nothing is selected"),
    ("loss", last_digits, "condemns"),
    ("loss", value_only, "every ordinary position scored"),
    ("visibility", unpadded_visibility, "padding left open (does your batch hold any?)"),
    (
        "visibility",
        one_sentence,
        "1 of 10 faults gets through: the padding of the first sentence taken for that of all",
    ),
    ("visibility", no_masks, "1 of 10 faults gets through: [MASK] closed to its neighbours"),
    ("visibility", count_open, "noughts and ones"),
    ("visibility", stored_alike, "It condemns a sound function"),
    ("visibility", silent, "returned NoneType, neither True nor False"),
    ("visibility", number, "returned int, neither True nor False"),
    (
        "visibility",
        careless,
        "At the fault “noughts and ones as floating-point numbers, which an interface would add”",
    ),
    ("visibility", careless, "raised TypeError"),
    ("training", one_update, "gradients of earlier updates heaped"),
    ("training", one_update, "masks drawn once"),
    ("training", moved, "10 of 11 faults get through"),
    ("training", storing_nothing, "condemns 3 that keep the contract too"),
    ("training", "sound", "A function was expected, got str"),
]


@pytest.mark.parametrize(("kind", "audit", "fragment"), WRONG)
def test_a_wrong_audit_is_told_what_it_does(kind: str, audit: Any, fragment: str) -> None:
    state, says = told(kind, audit)
    assert state == "not yet"
    assert fragment in says


def test_comparing_bit_by_bit_condemns_sound_functions_whatever_the_kernels() -> None:
    """How many, the kernels decide; with some, sums in another order come out the same to the last bit."""
    state, says = told("training", bitwise)
    assert state == "not yet"
    assert says.startswith(("It condemns ", "It calls everything faulty", "It lets one sound function pass and"))


def endless(candidate):
    while True:
        pass


def stubborn(candidate):
    while True:
        try:
            while True:
                pass
        except Exception:
            continue


@pytest.mark.parametrize("audit", [endless, stubborn])
def test_a_loop_is_ended(monkeypatch: pytest.MonkeyPatch, audit: Callable[..., bool]) -> None:
    monkeypatch.setattr(calling, "SECONDS", 0.2)
    assert "took longer than 0.2 seconds" in told("loss", audit)[1]


def test_an_audit_that_leaves_is_kept() -> None:
    def leaving(candidate):
        raise SystemExit

    assert "raised SystemExit" in told("loss", leaving)[1]


def test_a_meddling_audit_harms_nothing_and_no_later_audit() -> None:
    def meddling(candidate):
        sound = audit_visibility(candidate)
        torch.manual_seed(int(torch.randint(99, (1,))))
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        candidate.__dict__["visited"] = True
        np.random.seed(3)  # noqa: NPY002
        return sound

    np.random.seed(7)  # noqa: NPY002
    streams = torch.get_rng_state(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    assert told("visibility", meddling) == ("right", "")
    assert torch.equal(torch.get_rng_state(), streams[0])
    assert np.random.get_state()[1].tolist() == streams[1]  # type: ignore[index]  # noqa: NPY002
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()
    assert not any("visited" in exhibit.new().__dict__ for _, exhibit in EXHIBITS)


@pytest.mark.parametrize(("kind", "arguments"), [("corruption", (POOL, seed(1))), ("training", ())])
def test_what_a_fault_writes_into_is_put_back(kind: str, arguments: tuple[Any, ...]) -> None:
    ids, written = IDS[:64].clone(), []

    def trusting(candidate):
        if kind == "corruption":
            candidate(ids, *arguments)
            candidate(ids, *arguments)
        else:
            candidate(new_model(), ids, drawn(5), 2)
        written.append(not torch.equal(ids, IDS[:64]))
        return True

    assert "everything sound" in told(kind, trusting)[1]
    assert sum(written) == 1  # a fault that nobody put back would show at all later ones
    assert torch.equal(ids, IDS[:64])


def test_a_verdict_does_not_change() -> None:
    def by_global_dice(candidate):
        return bool(torch.rand(1) < 0.5)

    assert told("loss", by_global_dice) == told("loss", by_global_dice)
    assert told("corruption", masks_only) == told("corruption", masks_only)


def test_the_student_version_holds_no_audit() -> None:
    notebook = nbformat.read(ROOT / "notebooks" / "exercises" / "6_audit.ipynb", as_version=4)
    audits = [cell.source for cell in notebook.cells if cell.source.startswith("def audit_")]
    assert len(audits) == 4
    assert all(len(source.splitlines()) == 3 for source in audits)
    assert all(source.endswith("    ...  # your code here") for source in audits)
