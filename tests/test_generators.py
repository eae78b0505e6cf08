"""Raw draws of torch's generators, held to literals: should a release change them, this file says so first.

All were printed once from torch 2.13.0 on a CPU. Those of rand, randint and randperm were also reckoned from
numpy's Mersenne Twister of the same seed (24 low bits over 2^24; remainder by the range; a swap a position), so
they are the algorithm's and not one build's. Where these differ, no number of the chapter can be expected to hold.
"""

from typing import Any

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("state_guard")


def hold(what: str, found: list[Any], expected: Any) -> None:
    assert found == expected, (
        f"torch's generator itself has changed: {what} gives other numbers under torch {torch.__version__} than "
        f"under 2.13.0. The lab's numbers will differ too, and the fault is not the lab's.\n{found}\n{expected}"
    )


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_rand() -> None:
    expected = [
        *(0.1438819169998169, 0.9390703439712524, 0.5784958600997925, 0.7143298387527466, 0.749548077583313),
        *(0.12431067228317261, 0.3505746126174927, 0.41670161485671997, 0.8329588174819946, 0.4971843361854553),
        *(0.6693242192268372, 0.7702559232711792, 0.23926639556884766, 0.025292396545410156, 0.6840839385986328),
        *(0.9550401568412781, 0.059462785720825195, 0.6855161190032959, 0.7550066113471985, 0.7750957012176514),
    ]
    hold("rand of one row", torch.rand(20, generator=generator(6052)).tolist(), expected)
    hold("rand of a batch", torch.rand(4, 5, generator=generator(6052)).flatten().tolist(), expected)


def test_randint() -> None:
    sentences = [280, 151, 70, 250, 30, 306, 298, 169, 266, 196, 189, 81, 123, 287, 60, 107]
    hold("randint below 320", torch.randint(320, (16,), generator=generator(6051)).tolist(), sentences)
    replacements = [24, 56, 10, 52, 8, 51, 46, 19, 4, 65, 59, 66, 46, 0, 22, 49]
    hold("randint below 70", torch.randint(70, (16,), generator=generator(6052)).tolist(), replacements)


def test_randperm() -> None:
    labels = [19, 3, 10, 0, 8, 18, 9, 15, 7, 17, 2, 5, 6, 4, 1, 11, 13, 12, 14, 16]
    hold("randperm of 20", torch.randperm(20, generator=generator(6050)).tolist(), labels)
    forms = [1399, 1226, 1056, 1440, 744, 908, 743, 387, 59, 268, 1430, 1175]
    hold("randperm of 1500", torch.randperm(1500, generator=generator(6050))[:12].tolist(), forms)


# What follows scales or transforms the draws in float32, so the last bit may differ between processors.


def test_a_linear_layer() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(6050)
        layer = nn.Linear(4, 5)
    weights = [
        *(-0.26865155, -0.38313091, -0.46743643, -0.27833080, -0.12636828, 0.14413095, -0.21745330),
        *(0.45886260, 0.21757025, 0.34157407, -0.44382572, 0.01739061, -0.06416625, 0.38820231),
        *(0.10499519, -0.36606699, 0.37139142, -0.13199729, 0.24970680, -0.20666570),
    ]
    bias = [-0.47272241, -0.45545769, -0.09727216, 0.29911125, -0.02914834]
    hold("nn.Linear's weight", layer.weight.flatten().tolist(), pytest.approx(weights, rel=0, abs=1e-6))
    hold("nn.Linear's bias", layer.bias.tolist(), pytest.approx(bias, rel=0, abs=1e-6))


def test_normal() -> None:
    # Sixteen numbers and more take torch's vectorised path, as every table of the lab does; fewer take another.
    with torch.random.fork_rng():
        torch.manual_seed(6050)
        found = torch.empty(4, 5).normal_(std=0.02)
    expected = [
        *(-0.00293585, 0.00542586, 0.00482906, -0.01407476, 0.00053334, 0.00601692, 0.01602208),
        *(0.01883022, -0.02199813, -0.00957370, -0.01306818, -0.00098997, 0.00467341, 0.00049853),
        *(-0.01247393, -0.03048648, -0.00502706, -0.00536513, 0.01404755, 0.00545070),
    ]
    hold("normal_", found.flatten().tolist(), pytest.approx(expected, rel=0, abs=1e-7))
