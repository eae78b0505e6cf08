"""What a reader can set in torch: the settings that the tests try, and why the others decide no number."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.backends.opt_einsum  # torch 2.4 does not import it by itself
from chapter import precisions, settings
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimisers
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


def value(read: Callable[[], Any], write: Callable[[Any], Any], unusual: Any) -> AbstractContextManager:
    """Write an unusual value, and the one that was found at the end."""

    @contextmanager
    def block() -> Iterator[None]:
        before = read()
        assert before != unusual
        write(unusual)
        try:
            yield
        finally:
            write(before)

    return block()


def attribute(of: Any, name: str, unusual: Any) -> AbstractContextManager:
    return value(lambda: getattr(of, name), partial(setattr, of, name), unusual)


@contextmanager
def device_by_default() -> Iterator[None]:
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextmanager
def precision_of_products() -> Iterator[None]:
    before = [getattr(part, "fp32_precision", None) for part in precisions()[2:]]
    with value(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"):
        yield
    for part, precision in zip(precisions()[2:], before, strict=True):
        if precision is not None:  # torch gives "ieee" back where it found "none", which is the same
            part.fp32_precision = precision


@contextmanager
def precision_of_mkldnn() -> Iterator[None]:
    # The public name would set the general one; this is the public block around it.
    flags: Any = torch.backends.mkldnn.flags
    with flags(enabled=True, deterministic=False, allow_tf32=None, fp32_precision="bf16"):
        yield


@contextmanager
def hooked(register: Callable[..., Any], hook: Callable[..., Any]) -> Iterator[None]:
    handle = register(hook)
    try:
        yield
    finally:
        handle.remove()


class Doubled(TorchFunctionMode):
    """Doubles what torch draws."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        return result * 2 if function in (torch.rand, torch.randperm, torch.randint) else result


class Rounded(TorchDispatchMode):
    """Rounds every product."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        return result.round() if function is torch.ops.aten.mm.default else result


def double_weights(optimiser: Any, *_: Any) -> None:
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            parameter.data.mul_(2)


def raise_rates(optimiser: Any, *_: Any) -> None:
    for group in optimiser.param_groups:
        group["lr"] *= 2


def double_in_place(module: Any, given: Any, output: torch.Tensor) -> None:
    output.data.mul_(2)


SEEN: list[str] = []


def look_on(module: Any, *_: Any) -> None:
    SEEN.append(type(module).__name__)


@dataclass(frozen=True)
class Row:
    """One setting of torch.

    block: sets it to what is no default. covers: the names under which torch offers it. needs: whether this
    torch has it. refused: the ways in which the book refuses to run under it, with a part of what it says.
    """

    block: Callable[[], AbstractContextManager]
    covers: tuple[str, ...] = ()
    needs: bool = True
    refused: tuple[str, ...] = ()
    says: str = ""


HAS_PRECISION = hasattr(torch.backends, "fp32_precision")
EVERY = ("plainly", "together", "drawn", "written")
TRAINED = (
    "plainly",
    "written",
)  # by the plain loop; the fast engine has neither torch's gradients nor its optimisers
MODE = "leave its `with` block"
CHANGES = r"changes what it is shown.*remove"
MODULE = "torch.nn.modules.module.register_module_"

HELD: dict[str, Row] = {
    "default dtype": Row(
        lambda: value(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
        ("torch.set_default_dtype", "torch.set_default_tensor_type"),
    ),
    "default device": Row(device_by_default, ("torch.set_default_device",)),
    "a device for a block": Row(lambda: torch.device("meta")),
    "autocast": Row(
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        (
            "torch.autocast",
            "torch.cpu.amp.autocast",
            "torch.set_autocast_enabled",
            "torch.set_autocast_cpu_enabled",
        ),
    ),
    "inference mode": Row(torch.inference_mode, ("torch.inference_mode",)),
    "no gradients": Row(torch.no_grad, ("torch.set_grad_enabled", "torch.enable_grad")),
    "precision of products": Row(precision_of_products, ("torch.set_float32_matmul_precision",)),
    "general precision": Row(
        lambda: attribute(torch.backends, "fp32_precision", "bf16"),
        ("torch.backends.fp32_precision",),
        HAS_PRECISION,
    ),
    "precision of mkldnn": Row(precision_of_mkldnn, ("torch.backends.mkldnn.fp32_precision",), HAS_PRECISION),
    **{
        f"precision of mkldnn's {part}": Row(
            partial(attribute, getattr(torch.backends.mkldnn, part, None), "fp32_precision", "bf16"),
            (f"torch.backends.mkldnn.{part}",),
            HAS_PRECISION,
        )
        for part in ("matmul", "conv", "rnn")
    },
    "mkldnn switched off": Row(
        lambda: attribute(torch.backends.mkldnn, "enabled", False), ("torch.backends.mkldnn.enabled",)
    ),
    "flushed denormals": Row(
        lambda: value(lambda: settings()["flushed denormals"], torch.set_flush_denormal, True),
        ("torch.set_flush_denormal",),
    ),
    "deterministic mode": Row(
        lambda: value(torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode, 1),
        ("torch.set_deterministic_debug_mode", "torch.use_deterministic_algorithms"),
    ),
    "unfilled memory": Row(
        lambda: attribute(torch.utils.deterministic, "fill_uninitialized_memory", False),
        ("torch.utils.deterministic.fill_uninitialized_memory",),
    ),
    "threads": Row(lambda: value(torch.get_num_threads, torch.set_num_threads, 3), ("torch.set_num_threads",)),
    "exchange of parameters": Row(
        lambda: value(
            torch.__future__.get_swap_module_params_on_conversion,
            torch.__future__.set_swap_module_params_on_conversion,
            True,
        ),
        ("torch.__future__.set_swap_module_params_on_conversion",),
    ),
}

HARMLESS: dict[str, Row] = {
    "the global stream": Row(lambda: torch.random.fork_rng(devices=[]), ("torch.manual_seed", "torch.seed")),
    "anomaly detection": Row(
        lambda: torch.autograd.set_detect_anomaly(True),
        ("torch.set_anomaly_enabled", "torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly"),
    ),
    "one thread for gradients": Row(
        lambda: torch.autograd.set_multithreading_enabled(False), ("torch.autograd.set_multithreading_enabled",)
    ),
    "warnings each time": Row(
        lambda: value(torch.is_warn_always_enabled, torch.set_warn_always, True), ("torch.set_warn_always",)
    ),
    "mkldnn's deterministic flag": Row(
        lambda: attribute(torch.backends.mkldnn, "deterministic", True),
        ("torch.backends.mkldnn.deterministic",),
        hasattr(torch.backends.mkldnn, "deterministic"),
    ),
    "no fast path of nn.MultiheadAttention": Row(
        lambda: value(torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled, False),
        ("torch.backends.mha.set_fastpath_enabled",),
    ),
    "no order sought for einsum": Row(
        lambda: attribute(torch.backends.opt_einsum, "enabled", not torch.backends.opt_einsum.is_available())
    ),
    "conversion of parameters": Row(
        lambda: value(
            torch.__future__.get_overwrite_module_params_on_conversion,
            torch.__future__.set_overwrite_module_params_on_conversion,
            True,
        ),
        ("torch.__future__.set_overwrite_module_params_on_conversion",),
    ),
    "a hook that looks on at modules": Row(lambda: hooked(modules.register_module_forward_hook, look_on)),
    "a hook that looks on at optimisers": Row(
        lambda: hooked(optimisers.register_optimizer_step_pre_hook, look_on)
    ),
}

REFUSED: dict[str, Row] = {
    "a function mode": Row(Doubled, refused=EVERY, says=f"Doubled stands between.*{MODE}"),
    "a dispatch mode": Row(Rounded, refused=EVERY, says=f"Rounded stands between.*{MODE}"),
    "hooks on saved tensors": Row(
        lambda: saved_tensors_hooks(lambda saved: saved * 2, lambda saved: saved),
        ("torch.autograd.graph.saved_tensors_hooks",),
        refused=EVERY,
        says="hooks on saved tensors.*leave their `with` block",
    ),
    "a forward hook that answers": Row(
        lambda: hooked(modules.register_module_forward_hook, lambda module, given, output: output * 2),
        (f"{MODULE}forward_hook",),
        refused=EVERY,
        says=CHANGES,
    ),
    "a forward hook that writes": Row(
        lambda: hooked(modules.register_module_forward_hook, double_in_place), refused=EVERY, says=CHANGES
    ),
    "a hook before forward": Row(
        lambda: hooked(modules.register_module_forward_pre_hook, lambda module, given: given),
        (f"{MODULE}forward_pre_hook",),
        refused=EVERY,
        says=CHANGES,
    ),
    "a hook on gradients": Row(
        lambda: hooked(modules.register_module_full_backward_hook, lambda module, inner, outer: inner),
        (f"{MODULE}full_backward_hook", f"{MODULE}backward_hook"),
        refused=TRAINED,
        says=CHANGES,
    ),
    "a hook before gradients": Row(
        lambda: hooked(modules.register_module_full_backward_pre_hook, lambda module, outer: outer),
        (f"{MODULE}full_backward_pre_hook",),
        refused=TRAINED,
        says=CHANGES,
    ),
    "a hook on new parameters": Row(
        lambda: hooked(
            modules.register_module_parameter_registration_hook,
            lambda module, name, parameter: torch.nn.Parameter(parameter * 2),
        ),
        (f"{MODULE}parameter_registration_hook",),
        refused=EVERY,
        says=CHANGES,
    ),
    "a hook on new modules": Row(
        lambda: hooked(modules.register_module_module_registration_hook, lambda module, name, part: part),
        (f"{MODULE}module_registration_hook",),
        refused=EVERY,
        says=CHANGES,
    ),
    "a hook on new buffers": Row(
        lambda: hooked(modules.register_module_buffer_registration_hook, lambda module, name, buffer: ~buffer),
        (f"{MODULE}buffer_registration_hook",),
        refused=EVERY,
        says=CHANGES,
    ),
    "a hook that doubles weights before a step": Row(
        lambda: hooked(optimisers.register_optimizer_step_pre_hook, double_weights),
        ("torch.optim.optimizer.register_optimizer_step_pre_hook",),
        refused=TRAINED,
        says=f"double_weights {CHANGES}",
    ),
    "a hook that raises rates after a step": Row(
        lambda: hooked(optimisers.register_optimizer_step_post_hook, raise_rates),
        ("torch.profiler.register_optimizer_step_post_hook",),
        refused=TRAINED,
        says=f"raise_rates {CHANGES}",
    ),
}

TABLE = {**HELD, **HARMLESS, **REFUSED}

ELSEWHERE: dict[str, str] = {
    "torch.set_rng_state": "a state of the global stream, like a seed: the book draws from streams of its own",
    "torch.set_num_interop_threads": "how many operations may run side by side; not how any of them computes",
    "torch.set_printoptions": "how a tensor is written; the book prints numbers",
    "torch.set_autocast_*": "which dtype autocast takes and what it remembers, once on; the table has it off",
    "torch.set_vital": "notes for statistics about torch itself",
    "torch.cpu.set_device": "there is one CPU",
    "torch.accelerator.*": "other devices: the book computes on the CPU",
    "torch.cuda.*": "other devices",
    "torch.xpu.*": "other devices",
    "torch.mps.*": "other devices",
    "torch.mtia.*": "other devices",
    "torch.backends.cuda.*": "other devices, and scaled_dot_product_attention, which the book does not call",
    "torch.backends.cudnn*": "other devices",
    "torch.backends.miopen.*": "other devices",
    "torch.backends.mkldnn.allow_tf32": "other devices: Intel's graphics",
    "torch.backends.mkldnn.flags": "the block around what the table has one by one",
    "torch.backends.mkldnn.set_flags": "the same without a block",
    "torch.backends.python_native.*": "kernels in Python, for other devices",
    "torch.backends.nnpack.*": "convolutions, which the book does not compute",
    "torch.backends.opt_einsum.*": "the order of products of three tensors or more, which the book does not take",
    "torch.backends.flags": "the block around the general precision",
    "torch.backends.set_flags": "the same without a block",
    "torch.backends.disable_global_flags": "forbids the public names; what holds the settings does not use them",
    "torch.autograd.graph.allow_mutation_on_saved_tensors": "is made of a dispatch mode, and refused with it",
    "torch.autograd.graph.disable_saved_tensors_hooks": "forbids what the table has",
    "torch.autograd.graph.register_multi_grad_hook": "a hook on tensors of the reader's own",
    "torch.autograd.graph.set_*": "warnings and streams of other devices",
    "torch.overrides.enable_reentrant_dispatch": "how modes call themselves; modes are refused",
    "torch.compiler.*": "how functions are compiled; the book compiles none",
    "torch.jit.*": "how functions are compiled; the book compiles none",
    "torch.export.*": "how functions are compiled; the book compiles none",
    "torch.fx.*": "how functions are compiled; the book compiles none",
    "torch.library.*": "puts the reader's own operators into torch: another library, not a setting",
    "torch.onnx.*": "how a model is written to a file",
    "torch.quantization.*": "acts on the reader's own quantised modules",
    "torch.ao.*": "acts on the reader's own quantised modules",
    "torch.distributed.*": "several machines",
    "torch.distributions.*": "teaches a divergence to distributions, which the book does not use",
    "torch.hub.*": "where downloads are stored",
    "torch.monitor.*": "notes for statistics about torch itself",
    "torch.multiprocessing.*": "how torch starts processes; the book's workers are none of those",
    "torch.serialization.*": "how files are written; the book writes none",
    "torch.nn.attention.*": "scaled_dot_product_attention, which the book does not call",
    "torch.nn.utils.parametrize.*": "acts on the reader's own modules",
    "torch.return_types.*": "teaches a type to trees of tensors",
    "torch.utils.checkpoint.*": "how activations are computed again; the book keeps them",
    "torch.utils.data.*": "loaders, which the book does not use",
    "torch.utils.set_module": "names the home of a function",
}
