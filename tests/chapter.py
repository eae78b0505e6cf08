"""What several test files need: the chapter's runs, each made once, and what tells what a test does or leaves."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from once import once
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimisers

from bertch15 import lab
from bertch15.pretraining import Pretrained, State, pretrain
from bertch15.recipe import Recipe


@once
def chapter() -> lab.LabResult:
    """Run the lab as the chapter does: five seeds, all budgets."""
    return lab.run()


@once
def plain() -> Pretrained:
    """Run the whole pretraining of seed 6050 by the plain loop. Nobody may change what it returns."""
    return pretrain(Recipe(), 6050)


def same(first: State, second: State) -> bool:
    """Say whether two sets of weights agree to the last bit."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def settings() -> dict[str, Any]:
    """Take down what a library may change for everybody: streams, threads, flags, dtype, precision, hooks."""
    return {
        "random state": torch.get_rng_state().tolist(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "gradients": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "dtype": torch.get_default_dtype(),
        "device": torch.empty(0).device,  # torch 2.4 cannot name its default device once one was set and unset
        "autocast": torch.is_autocast_enabled("cpu"),
        "fill": torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
        "mkldnn": torch.backends.mkldnn.enabled,
        "exchange of parameters": torch.__future__.get_swap_module_params_on_conversion(),
        "flushed denormals": torch.full((), 1e-40, dtype=torch.float32, device="cpu").mul(1.0).item() == 0,
        "precisions": [getattr(part, "fp32_precision", None) for part in precisions()],
        "hooks": [[*hooks.values()] for hooks in hooks_of_torch()],
    }


def precisions() -> list[Any]:
    """Give the parts of torch's backends that have a precision of their own, where this torch has them."""
    of_mkldnn = [getattr(torch.backends.mkldnn, part, None) for part in ("matmul", "conv", "rnn")]
    return [torch.backends, torch.backends.mkldnn, *of_mkldnn]


def hooks_of_torch() -> list[dict[int, Any]]:
    """Give torch's tables of hooks that act on every module and every optimiser."""
    tables = ("forward_pre", "forward", "backward_pre", "backward")
    registrations = ("parameter_registration", "module_registration", "buffer_registration")
    return [
        *(getattr(modules, f"_global_{name}_hooks") for name in (*tables, *registrations)),
        *(getattr(optimisers, f"_global_optimizer_{when}_hooks") for when in ("pre", "post")),
    ]


@contextmanager
def unusual_settings_kept() -> Iterator[None]:
    """Set what no default would restore by chance, and check that it is still so after the block."""
    stream, found = torch.get_rng_state(), settings()
    try:
        torch.set_num_threads(2)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.manual_seed(1)
        torch.rand(3)
        before = settings()
        yield
        after = settings()
        changed = [name for name in before if after[name] != before[name]]
        assert not changed, f"the run left these settings changed: {changed}"
    finally:
        torch.set_rng_state(stream)
        torch.set_num_threads(found["threads"])
        torch.use_deterministic_algorithms(found["deterministic"], warn_only=found["warn only"])
        torch.utils.deterministic.fill_uninitialized_memory = found["fill"]  # type: ignore[attr-defined]
