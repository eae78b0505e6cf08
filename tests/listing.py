"""The lab as one plain listing, written straight from its definition and never tuned.

It imports nothing of the package: it is the other witness. The benchmark measures against it, and the tests hold
the package's results to its results.
"""

import copy
import math
from itertools import product

import torch
from torch import nn
from torch.nn import functional as F

CUES = [
    ("rain", "power"),
    ("soil", "metal"),
    ("roots", "gears"),
    ("water", "fuel"),
    ("garden", "workshop"),
    ("grows", "moves"),
    ("blooms", "turns"),
    ("sunlight", "current"),
]
PAD, UNK, CLS, SEP, MASK = 0, 1, 2, 3, 4
LENGTH = 10


def sentences_of(word, family):
    c = [pair[family] for pair in CUES]
    o = [pair[1 - family] for pair in CUES]
    return [
        f"after {c[0]} the {word} {c[5]}",
        f"the {word} needs {c[3]} near {c[1]}",
        f"{c[2]} support the {word}",
        f"in the {c[4]} the {word} {c[6]}",
        f"we found the {word} beside {c[1]}",
        f"{c[0]} and {c[7]} help the {word}",
        f"the {word} rests near {o[4]}",
        f"today the {word} follows {o[2]}",
    ]


forms = ["".join(parts) for parts in product("bglmprstvz", "aeiou", "dknrst", "aeiou")]
order = torch.randperm(1500, generator=torch.Generator().manual_seed(6050))
words = [forms[i] for i in order[:80]]
families = [words[:40], words[40:]]
covered = [family[:20] for family in families]
uncovered = [family[20:] for family in families]
source = [s for f in (0, 1) for word in covered[f] for s in sentences_of(word, f)]
ordinary = sorted({token for sentence in source for token in sentence.split()} | set(words))
vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *ordinary]
ids_of = {token: i for i, token in enumerate(vocabulary)}


def encode(sentence):
    ids = [CLS] + [ids_of[token] for token in sentence.split()] + [SEP]
    return ids + [PAD] * (LENGTH - len(ids))


source_ids = torch.tensor([encode(sentence) for sentence in source])
pool = torch.tensor(sorted(set(source_ids.flatten().tolist()) - {PAD, CLS, SEP}))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(48, 144)
        self.output = nn.Linear(48, 48)

    def forward(self, x, padding):
        B, T, _ = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, 4, 12).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(12)
        scores = scores.masked_fill(padding[:, None, None, :], float("-inf"))
        mixed = torch.softmax(scores, dim=-1) @ v
        return self.output(mixed.transpose(1, 2).reshape(B, T, 48))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.norm1 = nn.LayerNorm(48)
        self.ff = nn.Sequential(nn.Linear(48, 96), nn.GELU(), nn.Linear(96, 48))
        self.norm2 = nn.LayerNorm(48)

    def forward(self, x, padding):
        x = self.norm1(x + self.attention(x, padding))
        return self.norm2(x + self.ff(x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embedding = nn.Embedding(len(vocabulary), 48, padding_idx=PAD)
        self.position_embedding = nn.Embedding(LENGTH, 48)
        self.blocks = nn.ModuleList([Block(), Block()])
        nn.init.normal_(self.token_embedding.weight, 0.0, 0.02)
        nn.init.normal_(self.position_embedding.weight, 0.0, 0.02)
        with torch.no_grad():
            self.token_embedding.weight[PAD] = 0.0

    def forward(self, ids):
        x = self.token_embedding(ids) + self.position_embedding(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x, ids == PAD)
        return x


class MLMHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(48, 48)
        self.norm = nn.LayerNorm(48)
        self.decoder = nn.Linear(48, len(vocabulary))

    def forward(self, hidden, selected):
        return self.decoder(self.norm(F.gelu(self.dense(hidden[selected]))))


def corrupt(ids, g):
    eligible = (ids != PAD) & (ids != CLS) & (ids != SEP)
    selected = (torch.rand(ids.shape, generator=g) < 0.15) & eligible
    if not selected.any():
        pick = torch.randint(int(eligible.sum()), (1,), generator=g)
        position = eligible.nonzero()[pick[0]]
        selected[position[0], position[1]] = True
    branch = torch.rand(ids.shape, generator=g)
    drawn = pool[torch.randint(70, ids.shape, generator=g)]
    corrupted = ids.clone()
    masked = selected & (branch < 0.8)
    randomised = selected & (branch >= 0.8) & (branch < 0.9)
    corrupted[masked] = MASK
    corrupted[randomised] = drawn[randomised]
    counts = int(masked.sum()), int(randomised.sum()), int((selected & (branch >= 0.9)).sum())
    return corrupted, selected, counts, int(eligible.sum())


def neutral(list_of_words):
    return torch.tensor([encode(f"we found the {word} today") for word in list_of_words])


def geometry(encoder):
    with torch.no_grad():
        states = encoder(neutral(covered[0] + covered[1]))[:, 4]
    states = states - states.mean(0)
    states = states / states.norm(dim=1, keepdim=True)
    products = states @ states.T
    first, second = products[:20, :20], products[20:, 20:]
    within = (first.sum() - first.trace() + second.sum() - second.trace()) / (2 * 20 * 19)
    return float(within), float(products[:20, 20:].mean())


def adapt(start, labels, seed, budget):
    train = [covered[f][i] for f in (0, 1) for i in labels[f][:budget]]
    test = [covered[f][i] for f in (0, 1) for i in labels[f][budget:]]
    control = uncovered[0] + uncovered[1]
    encoder = Encoder()
    encoder.load_state_dict(start)
    torch.manual_seed(seed + 10_000)
    head = nn.Linear(48, 2)
    optimiser = torch.optim.Adam(
        [{"params": encoder.parameters(), "lr": 2e-4}, {"params": head.parameters(), "lr": 2e-3}]
    )
    ids, targets = neutral(train), torch.tensor([0] * budget + [1] * budget)
    for _ in range(160):
        loss = F.cross_entropy(head(encoder(ids)[:, 4]), targets)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    right = {}
    with torch.no_grad():
        for name, some in (("train", train), ("covered", test), ("uncovered", control)):
            answers = head(encoder(neutral(some))[:, 4]).argmax(1)
            truth = torch.tensor([0] * (len(some) // 2) + [1] * (len(some) // 2))
            right[name] = (int((answers == truth).sum()), len(some))
    return right


def replicate(seed):
    torch.manual_seed(seed)
    encoder = Encoder()
    scratch = copy.deepcopy(encoder.state_dict())
    head = MLMHead()
    schedule = torch.randint(320, (600, 64), generator=torch.Generator().manual_seed(seed + 1))
    g = torch.Generator().manual_seed(seed + 2)
    parameters = list(encoder.parameters()) + list(head.parameters())
    optimiser = torch.optim.Adam(parameters, lr=1e-3)
    losses, branches, eligible = [], [0, 0, 0], 0
    for step in range(600):
        ids = source_ids[schedule[step]]
        corrupted, selected, counts, candidates = corrupt(ids, g)
        loss = F.cross_entropy(head(encoder(corrupted), selected), ids[selected])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        losses.append(loss.item())
        branches = [a + b for a, b in zip(branches, counts, strict=True)]
        eligible += candidates
    pretrained = copy.deepcopy(encoder.state_dict())
    g = torch.Generator().manual_seed(seed)
    labels = [torch.randperm(20, generator=g).tolist() for _ in (0, 1)]
    outcomes = {
        (budget, name): adapt(start, labels, seed, budget)
        for budget in (1, 2, 4)
        for name, start in (("scratch", scratch), ("pretrained", pretrained))
    }
    after = geometry(encoder)
    encoder.load_state_dict(scratch)
    return {
        "losses": losses,
        "branches": tuple(branches),
        "eligible": eligible,
        "outcomes": outcomes,
        "initial": geometry(encoder),
        "after": after,
    }


def run(seeds=(6050, 6051, 6052, 6053, 6054)):
    torch.use_deterministic_algorithms(True)
    return {seed: replicate(seed) for seed in seeds}
