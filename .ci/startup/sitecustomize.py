"""What Python does at its start when this folder stands on PYTHONPATH: the conditions of `make portable`.

BERTCH15_NOISE: a whole number. Every weight that `torch.nn.init` draws or sets is multiplied by 1 + 6e-8 z, with
    z standard normal: the size of one rounding in float32. It stands for the machines that we do not have. The
    noise of a tensor depends on the seed and on the tensor, so weights that are equal without noise are equal with
    it, in every process, whatever was drawn before.
BERTCH15_NOTES: a file. Each number that the package or a cell formats is noted there before it is rounded.

The book knows nothing of either. Worker processes inherit both variables, and this folder with them.
"""

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

ROUNDING = 6e-8
DRAWS = [
    *["uniform_", "normal_", "trunc_normal_", "constant_", "ones_", "orthogonal_"],
    *["xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"],
]


def add_noise(init: ModuleType, seed: int) -> None:
    """Wrap the functions of `torch.nn.init` so that what they leave in a tensor is multiplied by the noise."""
    import hashlib
    from functools import wraps

    import torch

    inside: list[Any] = []

    def noisy(draw: Any) -> Any:
        @wraps(draw)
        def drawn(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            inside.append(draw)
            try:
                result = draw(tensor, *args, **kwargs)
            finally:
                inside.pop()
            if not inside and tensor.device.type == "cpu" and tensor.is_floating_point():
                with torch.no_grad():
                    content = tensor.detach().contiguous().numpy().tobytes()
                    digest = hashlib.blake2b(content, digest_size=7, key=str(seed).encode()).digest()
                    generator = torch.Generator().manual_seed(int.from_bytes(digest, "big"))
                    tensor.mul_(1 + ROUNDING * torch.randn(tensor.shape, generator=generator))
            return result

        return drawn

    for name in DRAWS:
        if hasattr(init, name):
            setattr(init, name, noisy(getattr(init, name)))


class Watcher(MetaPathFinder):
    """Changes modules as they are imported: `torch.nn.init` for the noise, the package for the notes."""

    def __init__(self, noise: str, notes: str) -> None:
        self.noise, self.notes = noise, notes

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> "ModuleSpec | None":
        """Find a module as Python does, and give it a loader that changes it."""
        of_package = self.notes and name.partition(".")[0] == "bertch15"
        if not of_package and not (self.noise and name == "torch.nn.init"):
            return None
        spec = PathFinder.find_spec(name, path, target) or self.elsewhere(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        if of_package:
            import notes

            spec.loader = notes.NotingLoader(loader.name, loader.path)
        else:
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                add_noise(module, int(self.noise))

            loader.exec_module = exec_module
        return spec

    def elsewhere(self, name: str, path: Any, target: Any) -> "ModuleSpec | None":
        """Ask the other finders, such as the one of an editable installation."""
        for finder in sys.meta_path:
            if finder is not self and finder is not PathFinder and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None


if os.environ.get("BERTCH15_NOISE") or os.environ.get("BERTCH15_NOTES"):
    sys.meta_path.insert(0, Watcher(os.environ.get("BERTCH15_NOISE", ""), os.environ.get("BERTCH15_NOTES", "")))
