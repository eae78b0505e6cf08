"""Global hooks on modules and optimisers: they may look on at a run, and not change it.

A hook is code that torch calls at every module or at every update. 15.5 has two of them note what an adaptation is
given. One that changes what it is shown, or answers with something in its place, changes numbers where the plain
loop computes and not where the fast engine does; so it is refused, in words.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimisers

HOOKS: list[dict[int, Callable[..., Any]]] = [
    hooks
    for library in (modules, optimisers)
    for name, hooks in vars(library).items()
    if name.startswith("_global_") and name.endswith("_hooks")
]
"""Torch's own tables of global hooks, by the number of the handle."""


def contents(thing: object) -> Any:
    """Copy all that a hook could change in what it is shown, as bytes and plain values."""
    if isinstance(thing, Tensor):
        return thing.numpy(force=True).tobytes()
    if isinstance(thing, nn.Module):
        return contents([(p, p.grad) for p in thing.parameters()] + [*thing.buffers()])
    if isinstance(thing, optimisers.Optimizer):
        return contents([thing.param_groups, *thing.state.values()])
    if isinstance(thing, dict):
        return {name: contents(value) for name, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [contents(value) for value in thing]
    return thing if isinstance(thing, int | float | str) else None


class Watched:
    """A hook that is called as it was, and refused if it does more than look on."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Call the hook; raise RuntimeError if it changes something or answers."""
        before = contents((args, kwargs))
        if self.hook(*args, **kwargs) is not None or contents((args, kwargs)) != before:
            name = getattr(self.hook, "__qualname__", type(self.hook).__name__)
            raise RuntimeError(
                f"the global hook {name} changes what it is shown, and so the numbers of the run: a hook may look "
                "on and must return None. Take it away with the `remove` of its handle, then call again"
            )


def watch_hooks() -> None:
    """Watch all global hooks that are not watched yet."""
    for hooks in HOOKS:
        for handle, hook in [*hooks.items()] if hooks else ():
            if not isinstance(hook, Watched):
                hooks[handle] = Watched(hook)


def unwatch_hooks() -> None:
    """Put the hooks back as they were registered."""
    for hooks in HOOKS:
        for handle, hook in [*hooks.items()] if hooks else ():
            if isinstance(hook, Watched):
                hooks[handle] = hook.hook
