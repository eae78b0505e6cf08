"""What a reader has set in torch: held to torch's defaults while the book computes, and given back afterwards.

Torch keeps dozens of settings for a whole process or thread, and some decide numbers: under another default dtype
the same seed draws other masks. A process that the lab starts knows none of them, so the numbers would depend on
how many it starts. What the book draws and computes therefore stands inside `reproducible`. Code of the reader's
that torch would run in between cannot be held: it is refused in words.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import disable_saved_tensors_hooks
from torch.overrides import _get_current_function_mode_stack as function_modes
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as dispatch_modes

from bertch15.hooks import unwatch_hooks, watch_hooks

_DETERMINISTIC: Any = torch.utils.deterministic
_C: Any = torch._C
_TINY = 5e-324  # the smallest number that a processor can hold; one that flushes takes it for 0


class Setting(NamedTuple):
    """One setting: how it is read and written, what a run sets, and what else the run may find and leave.

    own: whether each thread has its own. Only those may be given back while another thread still computes.
    """

    read: Callable[[], Any]
    write: Callable[[Any], object]
    held: Any
    harmless: tuple[Any, ...] = ()
    own: bool = False


def _matmul_precision() -> str | None:
    """Read the precision of products; None where torch will not say, as it was set by an old and by a new name."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


def _precision(backend: str, part: str, harmless: tuple[str, ...] = ()) -> list[Setting]:
    """Give one of the newer precisions, where torch has them: "none" leaves it to the more general one."""
    if not hasattr(_C, "_get_fp32_precision_getter"):
        return []
    # Not the public names: the one for all of mkldnn reads its own value and sets the general one.
    read, write = _C._get_fp32_precision_getter, _C._set_fp32_precision_setter
    return [Setting(partial(read, backend, part), partial(write, backend, part), "none", harmless)]


SETTINGS: tuple[Setting, ...] = (
    Setting(torch.get_default_dtype, torch.set_default_dtype, torch.float32),
    # Not `use_deterministic_algorithms`, which sets the same and imports torch's compiler first.
    Setting(torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode, 2),
    # Filling fresh memory finds reads of uninitialised values; it changes no result and costs time.
    Setting(
        lambda: _DETERMINISTIC.fill_uninitialized_memory,
        partial(setattr, _DETERMINISTIC, "fill_uninitialized_memory"),
        False,
    ),
    Setting(lambda: torch.is_autocast_enabled("cpu"), partial(torch.set_autocast_enabled, "cpu"), False, own=True),
    Setting(lambda: _TINY * 1.0 == 0.0, torch.set_flush_denormal, False, own=True),
    # Loading weights into a module would exchange its tensors, and refuse where anybody else holds one.
    Setting(
        torch.__future__.get_swap_module_params_on_conversion,
        torch.__future__.set_swap_module_params_on_conversion,
        False,
    ),
    Setting(_C._get_mkldnn_enabled, _C._set_mkldnn_enabled, True),
    # The general before the special: a special one shows its own value once those above it have none.
    *_precision("generic", "all"),
    *_precision("mkldnn", "all"),
    Setting(_matmul_precision, torch.set_float32_matmul_precision, "highest", harmless=(None,)),
    *_precision("mkldnn", "matmul", harmless=("ieee",)),
    *_precision("mkldnn", "conv", harmless=("ieee",)),
    *_precision("mkldnn", "rnn", harmless=("ieee",)),
)


class _Run:
    """What one block has found, and what is to be given back at its end."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.own: list[tuple[Setting, Any]] = []
        self.shared: list[tuple[Setting, Any]] = []

    def hold(self, settings: tuple[Setting, ...]) -> None:
        with _LOCK:
            _RUNS.append(self)
            watch_hooks()
            for setting in settings:
                value = setting.read()
                (self.own if setting.own else self.shared).append((setting, value))
                if value != setting.held and value not in setting.harmless:
                    setting.write(setting.held)

    def give_back(self) -> None:
        with _LOCK:
            _RUNS.remove(self)
            others = [run for run in _RUNS if run.thread != self.thread]
            if others and not any(run.thread == self.thread for run in _RUNS):
                # Another thread still computes: it gives back later what this one has found.
                others[0].shared, self.shared = self.shared, []
            for setting, value in reversed(self.shared + self.own):
                if value is not None and setting.read() != value:
                    setting.write(value)
            if not _RUNS:
                unwatch_hooks()


_LOCK = threading.RLock()
_RUNS: list[_Run] = []


def refuse_modes() -> None:
    """Raise RuntimeError if code of the reader's stands between the book and torch."""
    for mode in (*function_modes(), *dispatch_modes()):
        if not isinstance(mode, DeviceContext):
            raise RuntimeError(
                f"{type(mode).__name__} stands between the book and torch and may change any number: "
                "leave its `with` block, then call again"
            )
    says = "hooks on saved tensors may change any gradient: leave their `with` block, then call again"
    with disable_saved_tensors_hooks(says):  # raises so if there are any
        pass


@contextmanager
def _without_inference_mode() -> Iterator[None]:
    """Leave inference mode, whose tensors nobody can train on, and keep what it promises: no gradients."""
    with torch.inference_mode(False), torch.set_grad_enabled(False):
        yield


@contextmanager
def reproducible(threads: int = 1) -> Iterator[None]:
    """Compute as torch does when nothing was set, with deterministic algorithms and `threads` threads.

    All settings are given back at the end. Blocks may stand in one another and in several threads. Gradients stay
    on or off as they are. The numbers do not depend on the thread count; one thread is merely the fastest for
    tensors this small. The default device is the CPU inside, for the book computes nowhere else.

    Raises RuntimeError inside a `TorchFunctionMode`, a `TorchDispatchMode` or hooks on saved tensors, and where a
    global hook on modules or optimisers does more than look on.
    """
    refuse_modes()
    count = Setting(torch.get_num_threads, torch.set_num_threads, threads, own=True)
    device = torch.device("cpu") if function_modes() else nullcontext()  # those that are left name a device
    inference = _without_inference_mode() if torch.is_inference_mode_enabled() else nullcontext()
    run = _Run()
    with device, inference:
        try:
            run.hold((*SETTINGS, count))
            yield
        finally:
            run.give_back()
