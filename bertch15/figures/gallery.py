"""All figures of the book in one place, drawn from what its pages draw them from, and written as files."""

import io
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor

from bertch15.families.next_token import shift_right
from bertch15.families.spans import Sentinels, remove_spans
from bertch15.fast.training import pretrain_together
from bertch15.figures.adaptation import adaptation
from bertch15.figures.attention import attention
from bertch15.figures.controls import controls
from bertch15.figures.families import Prepared, families
from bertch15.figures.flow import flow
from bertch15.figures.style import DPI, own_look, png
from bertch15.figures.transfer import transfer
from bertch15.finetuning import make_task, new_classifier
from bertch15.lab import LabResult
from bertch15.pretraining import State, load_encoder
from bertch15.settings import reproducible
from bertch15.visibility import causal, visibility
from bertch15.vocabulary import Vocabulary

Drawn = tuple[Figure, str]

NAMES = {
    "figure_15_1": "Figure 15.1",
    "figure_15_2": "Figure 15.2",
    "attention_weights": "Attention weights",
    "figure_15_3": "Figure 15.3",
    "figure_15_4": "Figure 15.4",
    "figure_15_5": "Figure 15.5",
}
"""A figure's file, without its ending, and what the page calls it, in the order of the book."""

WORDS = ["the", "boat", "reached", "the", "bank", "at", "night"]
"""The sentence that three families prepare."""


@dataclass(frozen=True)
class Gallery:
    """What the figures need that takes seconds to compute; `draw` gives each figure with its sentence.

    result: the lab's, for Figure 15.4. pretrained: an encoder of the lab's recipe, after its pretraining with the
    first of the lab's seeds.
    """

    result: LabResult
    pretrained: State

    @classmethod
    def of(cls, result: LabResult) -> "Gallery":
        """Make the gallery of a run of the lab: its first seed is pretrained once more, for the encoder."""
        with reproducible():
            (run,) = pretrain_together(result.recipe, [result.replicates[0].seed])
        return cls(result, run.pretrained)

    def draw(self, name: str) -> Drawn:
        """Draw the figure whose file has this name, one of `NAMES`."""
        match name:
            case "figure_15_1":
                return two_visibilities()
            case "figure_15_2":
                return flow()
            case "attention_weights":
                return self.attention_weights()
            case "figure_15_3":
                return self.three_heads()
            case "figure_15_4":
                return transfer(self.result)
            case "figure_15_5":
                return families([as_bert(), as_gpt(), as_t5()])
        raise ValueError(f"no figure is called {name!r}; they are {', '.join(NAMES)}")

    def attention_weights(self) -> Drawn:
        """Draw where each token of one sentence reads, in the mean over the heads of each block."""
        recipe = self.result.recipe
        words, encoder = recipe.language().vocabulary, load_encoder(recipe, self.pretrained)
        ids = words.encode(["after rain the [MASK] blooms"], 10)
        tokens, seen = words.decode(ids)[0], encoder.attention_weights(ids, visibility(ids))
        means = {
            f"block {n}, mean of {recipe.heads} heads": maps[0].mean(0) for n, maps in enumerate(seen, start=1)
        }
        return attention(tokens, means, query=tokens.index("[MASK]"))

    def three_heads(self) -> Drawn:
        """Draw the encoder under three heads, with the last labelled sentence of the task's first family."""
        recipe, seed = self.result.recipe, self.result.replicates[0].seed
        world = recipe.language()
        ids, _ = make_task(world, seed, budget=4).train
        return adaptation(world.vocabulary.decode(ids[3, :7]), new_classifier(recipe, seed, self.pretrained))


def two_visibilities() -> Drawn:
    """Draw the running example of 15.1, with "bank" scored."""
    vocabulary = Vocabulary.of(["the", "bank", "rose"])
    ids = vocabulary.encode(["the bank rose"], length=6)
    return controls(vocabulary, ids, ids == vocabulary.id("bank"))


@reproducible()
def as_bert() -> Prepared:
    """Prepare the sentence for an encoder: one hole, everything in view."""
    reads = ["[CLS]", *WORDS, "[SEP]"]
    hole = reads.index("bank")
    answers = ["bank" if place == hole else "" for place in range(len(reads))]
    reads[hole] = "[MASK]"
    return Prepared("BERT-style encoder", reads, torch.ones(len(reads), len(reads), dtype=torch.bool), answers)


def as_gpt() -> Prepared:
    """Prepare the sentence for a decoder: each position answers with the token that follows."""
    whole = ["[CLS]", *WORDS, "[SEP]"]
    return Prepared("GPT-style decoder", whole[:-1], causal(len(whole) - 1), whole[1:])


@reproducible()
def as_t5() -> Prepared:
    """Prepare the sentence for an encoder-decoder: two spans removed, and written out by the decoder."""
    start, end, sentinels = len(WORDS), len(WORDS) + 1, Sentinels()
    names = dict(enumerate([*WORDS, "[START]", "[END]"])) | {sentinels.of(n): f"<{n}>" for n in range(2)}

    def spell(ids: Tensor) -> list[str]:
        return [names[token] for token in ids.tolist()]

    noise = torch.tensor([word in ("reached", "night") for word in WORDS])
    noise[WORDS.index("reached") + 1] = True  # the span is "reached the"
    taken = remove_spans(torch.arange(len(WORDS)), noise, end=end)
    memory, written = len(taken.inputs), len(taken.targets)
    sees = torch.zeros(memory + written, memory + written, dtype=torch.bool)
    sees[:, :memory] = True
    sees[memory:, memory:] = causal(written)
    reads = spell(taken.inputs) + spell(shift_right(taken.targets, start))
    return Prepared("T5-style encoder-decoder", reads, sees, [""] * memory + spell(taken.targets), memory)


@own_look()
def svg(figure: Figure) -> bytes:
    """Draw a figure as an SVG that is the same, byte for byte, whenever the figure is; its words are outlines."""
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "bertch15"}):  # else its parts are named at random
        figure.savefig(buffer, format="svg", dpi=2 * DPI, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def write_figures(gallery: Gallery, folder: Path) -> dict[Path, bool]:
    """Write every figure as .svg and .png, and say of each file whether that changed it."""
    changed = {}
    for name in NAMES:
        for ending, form in ((".png", png), (".svg", svg)):
            figure, _ = gallery.draw(name)  # anew: drawn a second time, it is laid out a little otherwise
            path, content = folder / f"{name}{ending}", form(figure)
            changed[path] = not path.exists() or path.read_bytes() != content
            if changed[path]:
                path.write_bytes(content)
    return changed
