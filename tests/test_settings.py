"""What a reader has set in torch changes no number, here and in the workers alike, or is refused in words."""

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from fnmatch import fnmatch
from typing import Any

import fresh
import pytest
import torch
from chapter import hooks_of_torch, settings
from unusual import ELSEWHERE, HARMLESS, HELD, REFUSED, SEEN, TABLE, Row

from bertch15 import check, lab
from bertch15.check.kit.calling import call
from bertch15.corruption import Policy, corrupt
from bertch15.demonstrations.mask_policy.model import demonstrate
from bertch15.demonstrations.span_corruption.view import span_view
from bertch15.demonstrations.visibility_explorer.model import reading
from bertch15.families.decoding import beam_search, greedy
from bertch15.families.next_token import NextTokenModel
from bertch15.families.spans import Sentinels, draw_noise, remove_spans
from bertch15.fast.worker import Worker, environment
from bertch15.figures.gallery import as_t5
from bertch15.finetuning import adapt, evaluate, label_order, make_task
from bertch15.geometry import word_geometry
from bertch15.language import CueNoise, make_language
from bertch15.pretraining import load_encoder, new_encoder, new_head, pretrain, questions, schedule, seeded
from bertch15.recipe import Recipe
from bertch15.settings import reproducible
from bertch15.visibility import visibility

pytestmark = pytest.mark.usefixtures("state_guard")

TINY = replace(Recipe(), updates=3, adaptation_updates=2, budgets=(1,))
MIXED = replace(TINY, noise=CueNoise("flips"), shuffled=True, static_masks=2, policy=Policy(pool="vocabulary"))
NEXT = replace(TINY, updates=1, objective="next token", visibility="causal")


# What the book draws and computes, to the last bit


def bits(thing: Any) -> Any:
    """Write down a result so that it can be compared: every number, and of tensors dtype and device too."""
    if isinstance(thing, torch.Tensor):
        return str(thing.dtype), str(thing.device), thing.tolist()
    if isinstance(thing, dict):
        return {name: bits(value) for name, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [bits(value) for value in thing]
    return thing


def plainly() -> Any:
    """Pretrain and adapt by the plain loop, and look at what came out."""
    trained = pretrain(TINY, 6050)
    found = [adapt(TINY, 6050, start, 1) for start in (trained.scratch, trained.pretrained)]
    task, encoder = make_task(TINY.language(), 6050, 1), load_encoder(TINY, trained.pretrained)
    ids = task.train[0]
    return bits(
        [
            [trained.scratch, trained.pretrained, trained.head, trained.losses, trained.branches],
            [[one.losses, one.train, one.covered, one.uncovered] for one in found],
            [one.classifier.state_dict() for one in found],
            [evaluate(found[1].classifier, task.covered), word_geometry(TINY, trained.pretrained)],
            encoder.attention_weights(ids, visibility(ids)),
        ]
    )


def drawn() -> Any:
    """Draw all that has a seed of its own: words, sentences, masks, orders, weights, spans, texts."""
    make_language.cache_clear()
    source = TINY.language()
    generator = torch.Generator().manual_seed(1)
    batches = [corrupt(source.source_ids[:8], source.pool, generator) for _ in range(2)]
    with seeded(1):
        weights = [torch.rand(3), new_encoder(TINY).state_dict(), new_head(TINY).state_dict()]
    noise = draw_noise(20, torch.Generator().manual_seed(1))
    return bits(
        [
            [MIXED.language().sentences, MIXED.language().source_ids, MIXED.language().pool],
            [[batch.ids, batch.corrupted, batch.selected, batch.randomised] for batch in batches],
            [[q.inputs, q.targets] for q in questions(MIXED, MIXED.language(), 6050)],
            [schedule(TINY, 6050, 320), label_order(6050), weights, noise],
            remove_spans(source.source_ids.flatten()[:20], noise, Sentinels(), end=1),
            [visibility(source.source_ids[:2], kind) for kind in ("full", "causal", "own", "unpadded")],
            [str(demonstrate(draws=5)), str(span_view()), reading(2).weights, repr(as_t5())],
        ]
    )


def written() -> Any:
    """Let a next-token model write."""
    model, ids = NextTokenModel.of(pretrain(NEXT, 6050)), NEXT.language().source_ids[:1, :3]
    texts = [greedy(model, ids[0].tolist(), 3, 2), *beam_search(model, ids[0].tolist(), 3, 2, 2)]
    return bits([model.logits(ids), model.stepwise_logits(ids), [[one.ids, one.log_probability] for one in texts]])


def together(workers: int = 1) -> Any:
    """Run the lab, on the fast engine."""
    return lab.run(TINY, (6050, 6051), workers=workers).to_dict()


WAYS: dict[str, Callable[[], Any]] = {"plainly": plainly, "together": together, "drawn": drawn, "written": written}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """What comes out where nobody has set anything."""
    return {name: way() for name, way in WAYS.items()}


AS_IT_COMES = {
    "threads": 1,
    "deterministic": True,  # but for this, which torch comes without
    "warn only": False,
    "inference mode": False,
    "dtype": torch.float32,
    "device": torch.device("cpu"),
    "autocast": False,
    "fill": False,  # and this
    "mkldnn": True,
    "exchange of parameters": False,
    "flushed denormals": False,
}
FULL = {None, "none", "ieee"}  # a precision that is not there, left to a more general one, or full


def skip_unless_had(name: str) -> Row:
    """Give a row of the table; a torch that does not have the setting can break nothing by it."""
    row = TABLE[name]
    if not row.needs:
        pytest.skip(f"torch {torch.__version__} has no {name}")
    return row


def left_alone(before: dict[str, Any]) -> list[str]:
    """Name what is no longer as it was."""
    after = settings()
    return [name for name in before if after[name] != before[name]]


@pytest.mark.parametrize("name", [*HELD, *HARMLESS])
def test_a_setting_changes_no_number_and_is_given_back(name: str, expected: dict[str, Any]) -> None:
    row = skip_unless_had(name)
    with row.block():
        before = settings()
        for way, make in WAYS.items():
            assert make() == expected[way], f"{name} changes what is computed: {way}"
            assert left_alone(before) == [], f"{name} is not given back: {way}"


@pytest.mark.parametrize("name", HELD)
def test_inside_a_block_torch_is_as_it_comes(name: str) -> None:
    row = skip_unless_had(name)
    with row.block(), reproducible():
        inside, products = settings(), torch.get_float32_matmul_precision()
    assert {setting: inside[setting] for setting in AS_IT_COMES} == AS_IT_COMES
    assert set(inside["precisions"]) <= FULL
    assert products == "highest"


@pytest.mark.parametrize("name", REFUSED)
def test_code_in_between_is_refused_in_words_and_given_back(name: str, expected: dict[str, Any]) -> None:
    row = skip_unless_had(name)
    with row.block():
        held = [[*hooks.items()] for hooks in hooks_of_torch()]
        for way, make in WAYS.items():
            if way in row.refused:
                make_language.cache_clear()
                with pytest.raises(RuntimeError, match=row.says):
                    make()
            else:
                assert make() == expected[way], f"{name} changes what is computed: {way}"
        assert [[*hooks.items()] for hooks in hooks_of_torch()] == held


def verdicts() -> Any:
    """Let checks look at an answer, and call a student's function that draws and asks for gradients."""

    def student() -> list[Any]:
        weight = torch.rand(3, requires_grad=True)
        torch.zeros(3).put_(torch.tensor([0]), torch.ones(1))  # which deterministic mode would not let pass
        (weight @ torch.rand(3)).backward()
        return [weight.tolist(), str(weight.dtype), None if weight.grad is None else weight.grad.tolist()]

    answers = {"causal": torch.ones(8, 8, dtype=torch.bool, device="cpu").tril().tolist()}
    return [str(check.visibility(answers, "causal")), call(student)]


def test_no_verdict_depends_on_a_setting() -> None:
    without = verdicts()
    assert without[1].error is None
    for name, row in HELD.items():
        if row.needs:
            with row.block():
                before = settings()
                assert verdicts() == without, name
                assert left_alone(before) == [], name


# Workers


@pytest.fixture(scope="module")
def in_two_processes() -> Any:
    """What two processes give where nobody has set anything: each does its seed as this one would do it alone."""
    return lab.LabResult(TINY, (*lab.replicates(TINY, (6050,)), *lab.replicates(TINY, (6051,)))).to_dict()


def test_what_this_process_was_told_changes_no_number_of_two(
    in_two_processes: Any, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The newer precisions exclude one another, and one default device the other.
    left_out = {"a device for a block", "precision of products", "general precision", "precision of mkldnn"}
    with ExitStack() as all_of_them:
        for name, row in HELD.items():
            if row.needs and name not in left_out:
                all_of_them.enter_context(row.block())
        # Torch chose its kernels long ago; a new process would choose by what the variable says now.
        kernels = torch.backends.cpu.get_cpu_capability()
        monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2" if kernels == "DEFAULT" else "default")
        before = settings()
        assert together(workers=2) == in_two_processes
        assert together() == expected["together"]
        assert left_alone(before) == []


def test_a_library_told_otherwise_in_between_gets_no_worker(
    in_two_processes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MKL_CBWR", "AVX2,STRICT")
    worker = Worker(lab.replicates, TINY, (6050,))
    worker.close()
    assert (worker.finished, worker.result) == (True, None)
    assert "the environment variable MKL_CBWR has changed" in worker.error
    assert "restart the kernel" in worker.error
    assert together(workers=2) == in_two_processes, "the lab does the worker's part itself"


@pytest.mark.parametrize("name", ["MKL_NUM_THREADS", "DNNL_VERBOSE", "SOMETHING_ELSE"])
def test_a_variable_that_decides_no_number_costs_no_worker(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert environment()[name] == "1"


def test_the_environment_acts_alike_in_both_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, says in {
        "ATEN_CPU_CAPABILITY": "default",
        "OMP_NUM_THREADS": "2",
        "MKL_CBWR": "COMPATIBLE",
        "DNNL_MAX_CPU_ISA": "AVX2",
        "DNNL_DEFAULT_FPMATH_MODE": "ANY",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1",
    }.items():
        monkeypatch.setenv(variable, says)
    script = """
        from dataclasses import replace
        from bertch15 import lab
        from bertch15.recipe import Recipe
        tiny = replace(Recipe(), updates=3, adaptation_updates=2, budgets=(1,))
        shared = lab.run(tiny, (6050, 6051), workers=2)
        assert shared.replicates == (*lab.replicates(tiny, (6050,)), *lab.replicates(tiny, (6051,)))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# The block


def unusual() -> AbstractContextManager:
    return HELD["default dtype"].block()


def test_what_is_set_inside_a_block_ends_with_it_and_changes_no_number(
    expected: dict[str, Any],
) -> None:
    with reproducible():
        torch.set_default_dtype(torch.float64)
        assert plainly() == expected["plainly"]
        assert torch.get_default_dtype() == torch.float64, "what was called has kept its own"
    assert torch.get_default_dtype() == torch.float32


def test_blocks_nest_and_an_error_ends_them() -> None:
    found = []

    def fails() -> None:
        with reproducible(), reproducible(threads=2):
            found.append((torch.get_default_dtype(), torch.get_num_threads()))
            raise ZeroDivisionError

    with unusual():
        with pytest.raises(ZeroDivisionError):
            fails()
        assert found == [(torch.float32, 2)]
        assert torch.get_default_dtype() == torch.float64
        with reproducible():
            with reproducible():
                pass
            assert torch.get_default_dtype() == torch.float32
        assert torch.get_default_dtype() == torch.float64


def test_gradients_stay_switched_off_inside_and_tensors_of_inference_mode_end() -> None:
    with torch.no_grad(), reproducible():
        assert not torch.is_grad_enabled()
    with torch.inference_mode(), reproducible():
        assert not torch.is_grad_enabled()
        made = torch.ones(2)
    made.requires_grad_().sum().backward()
    assert made.grad is not None
    assert made.grad.tolist() == [1.0, 1.0]


def test_what_the_language_remembers_can_be_trained_on_whoever_asked_first() -> None:
    make_language.cache_clear()
    with torch.inference_mode():
        remembered = TINY.language().source_ids, TINY.language().pool
    assert not any(ids.is_inference() for ids in remembered)


def test_an_answer_is_counted_in_full_precision() -> None:
    classifier = adapt(TINY, 6050, pretrain(TINY, 6050).scratch, 1).classifier
    ids, _ = make_task(TINY.language(), 6050, 1).covered
    with torch.no_grad():
        classifier.head.weight.zero_()
        classifier.head.bias.copy_(torch.tensor([1.0, 1.0001]))  # one number, to eight bits
    with HELD["autocast"].block():
        score = evaluate(classifier, (ids, torch.ones(len(ids), dtype=torch.int64)))
    assert (score.correct, score.total) == (38, 38)


def test_two_threads_hold_one_setting_and_the_last_gives_it_back() -> None:
    inside, may_end, found = threading.Event(), threading.Event(), []

    def other() -> None:
        with reproducible():
            inside.set()
            may_end.wait(10)
            found.append(torch.get_default_dtype())

    with unusual():
        second = threading.Thread(target=other)
        with reproducible():
            second.start()
            assert inside.wait(10)
        may_end.set()
        second.join()
        assert found == [torch.float32], "the first to end took it away from the second"
        assert torch.get_default_dtype() == torch.float64, "nobody gave it back"


def test_a_block_costs_less_than_a_millisecond() -> None:
    def seconds_each(blocks: int = 50) -> float:
        began = time.perf_counter()
        for _ in range(blocks):
            with reproducible():
                pass
        return (time.perf_counter() - began) / blocks

    assert min(seconds_each() for _ in range(10)) < 1e-3


def test_ids_without_numbers_are_refused_in_words() -> None:
    language = TINY.language()
    with seeded(1):
        encoder = new_encoder(TINY)
    nothing = torch.zeros(1, 10, dtype=torch.int64, device="meta")
    with pytest.raises(ValueError, match='ids must hold numbers, got a tensor on torch\'s device "meta"'):
        encoder(nothing, visibility(language.source_ids[:1]))
    with pytest.raises(ValueError, match="use one device for both"):
        corrupt(nothing, language.pool, torch.Generator())


# Is that all?


def test_torch_offers_no_setting_that_the_table_does_not_know() -> None:
    covered = {name for row in TABLE.values() for name in row.covers}
    unknown = [
        name
        for name in fresh.seen()["setters"]
        if name not in covered and not any(fnmatch(name, known) for known in ELSEWHERE)
    ]
    assert not unknown, (
        f"torch {torch.__version__} can set for everybody what this table does not know: {', '.join(unknown)}. "
        "Find out whether it changes a number of the lab. If so, hold it in bertch15/settings.py and give it a "
        "row here; if not, say why in ELSEWHERE"
    )


def test_the_walk_finds_what_the_table_covers() -> None:
    for name, row in TABLE.items():
        if row.needs:
            missing = [covered for covered in row.covers if covered not in fresh.seen()["setters"]]
            assert not missing, f"torch no longer has the names {missing} of the row {name!r}"


def test_a_hook_that_looks_on_has_seen_the_run() -> None:
    SEEN.clear()
    with (
        HARMLESS["a hook that looks on at modules"].block(),
        HARMLESS["a hook that looks on at optimisers"].block(),
    ):
        adapt(TINY, 6050, pretrain(TINY, 6050).scratch, 1)
    # An optimiser at each of three updates and two. A classifier before each of the two, after them, and thrice.
    assert SEEN.count("Adam") == 3 + 2
    assert SEEN.count("Classifier") == 2 + 1 + 3
