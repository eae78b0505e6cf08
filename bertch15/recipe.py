"""The recipe: every constant of the transfer lab in one place.

The defaults are the chapter's. An experiment is the default with one field replaced:
`dataclasses.replace(Recipe(), policy=Policy(mask_share=0.0, random_share=0.0))`.
"""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from bertch15.corruption import Policy
from bertch15.language import LENGTH, CueNoise, Language, make_language
from bertch15.visibility import VisibilityKind

SEEDS = (6050, 6051, 6052, 6053, 6054)
"""The five replicates of the chapter."""

Objective = Literal["masked", "next token"]
Decoder = Literal["untied", "tied", "tied source rows"]
Optimiser = Literal["adam", "adamw", "sgd"]
Adaptation = Literal["full", "probe"]
CHOICES: dict[str, tuple[str, ...]] = {
    "visibility": get_args(VisibilityKind),
    "objective": get_args(Objective),
    "decoder": get_args(Decoder),
    "optimiser": get_args(Optimiser),
    "adaptation": get_args(Adaptation),
}


@dataclass(frozen=True)
class Recipe:
    """All that decides the lab's numbers, but for the replicate's seed.

    The source: `corpus_seed` deals the words; `noise`, `exposure` and `shuffled` are those of `make_language`.
    The encoder: `width` d, divided among `heads`, feed-forward width `inner`, `blocks`, `visibility`.
    Pretraining: `objective`, `policy`, and `static_masks`, the number of corruptions written in advance
    (0: drawn anew at each presentation); `decoder` tied to the token embedding or not; `optimiser`, `rate`,
    `weight_decay`, and `clip`, the largest gradient norm (None: any); `updates` of `batch` sentences.
    Adaptation: `budgets`, labelled words per family; `adaptation` "full" moves the encoder, "probe" does not;
    `adaptation_updates` full-batch Adam updates at `encoder_rate` and `head_rate`; `readout`, the position read.
    """

    corpus_seed: int = 6050
    noise: CueNoise = CueNoise()
    exposure: int = 0
    shuffled: bool = False

    width: int = 48
    heads: int = 4
    inner: int = 96
    blocks: int = 2
    visibility: VisibilityKind = "full"

    objective: Objective = "masked"
    policy: Policy = Policy()
    static_masks: int = 0
    decoder: Decoder = "untied"
    optimiser: Optimiser = "adam"
    rate: float = 1e-3
    weight_decay: float = 0.0
    clip: float | None = 1.0
    updates: int = 600
    batch: int = 64

    budgets: tuple[int, ...] = (1, 2, 4)
    adaptation: Adaptation = "full"
    adaptation_updates: int = 160
    encoder_rate: float = 2e-4
    head_rate: float = 2e-3
    readout: int = 4

    def __post_init__(self) -> None:
        object.__setattr__(self, "budgets", tuple(self.budgets))
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {choices}, got {getattr(self, name)!r}")
        for name in ("width", "heads", "inner", "blocks", "batch"):
            self._at_least(name, 1)
        for name in ("updates", "adaptation_updates", "static_masks", "weight_decay"):
            self._at_least(name, 0)
        for name in ("rate", "encoder_rate", "head_rate"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be above 0 or None, got {self.clip}")
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads, got {self.width} and {self.heads}")
        if not 0 <= self.exposure <= 8:
            raise ValueError(f"exposure must lie in 0 to 8 sentences, got {self.exposure}")
        for name in ("corpus_seed", "exposure", "updates", "adaptation_updates", "static_masks", "readout"):
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"{name} must be a whole number, got {getattr(self, name)!r}")
        whole = all(isinstance(budget, int) and 1 <= budget <= 19 for budget in self.budgets)
        if not whole or not self.budgets or len(set(self.budgets)) < len(self.budgets):
            raise ValueError(f"budgets must be distinct counts of 1 to 19 words per family, got {self.budgets}")
        if not 0 <= self.readout < LENGTH:
            raise ValueError(f"readout must be a position in 0 to {LENGTH - 1}, got {self.readout}")

    def _at_least(self, name: str, least: int) -> None:
        if not getattr(self, name) >= least:
            raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")

    def language(self) -> Language:
        """Give the language that this recipe describes."""
        return make_language(self.corpus_seed, self.noise, self.exposure, self.shuffled)

    def to_json(self) -> str:
        """Write the recipe as JSON, every field by name."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Recipe":
        """Read what `to_json` wrote; fields left out take the chapter's value."""
        values: dict[str, Any] = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError(f"a recipe must be a JSON object, got {type(values).__name__}")
        unknown = sorted(set(values) - {field.name for field in fields(cls)})
        if unknown:
            raise ValueError(f"a recipe has no field {unknown}; it has {[field.name for field in fields(cls)]}")
        for name, kind in (("noise", CueNoise), ("policy", Policy)):
            if name in values:
                values[name] = kind(**values[name])
        return cls(**values)
