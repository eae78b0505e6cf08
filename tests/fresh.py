"""Fresh interpreters, each of which takes seconds: one for all that ask what importing does, and quicker ones."""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from once import once

PROGRAM = r"""
import importlib, json, pkgutil, random, re, sys
import numpy, torch

found = {}

# The public names in torch, as it is imported, that set something for everybody, attributes included.

verb = re.compile(r"(set|use|enable|disable|allow|register|push)_|(autocast|inference_mode|saved_tensors_hooks|"
                  r"detect_anomaly|flags|manual_seed|seed)$")
setters = {}
homes = (name for name in sys.modules if re.match(r"torch(\.|$)", name))
for home in sorted(homes, key=lambda name: (name.count("."), name)):
    module = sys.modules[home]
    if any(re.match(r"_(?!_future__)", part) for part in home.split(".")):
        continue
    for name in dir(module):
        held = getattr(module, name, None)
        if verb.match(name) and callable(held):
            setters.setdefault((name, id(held)), f"{home}.{name}")
    for name, held in vars(type(module)).items():
        if type(held).__name__ in ("ContextProp", "_FP32Precision") or (
            isinstance(held, property) and held.fset is not None):
            setters[home, name] = f"{home}.{name}"
found["setters"] = sorted(set(setters.values()))

# What importing a module of the book changes; first the modules that must do without libraries that draw.

def state():
    drawing = sys.modules.get("matplotlib")
    return [
        torch.get_rng_state().tolist(), torch.get_num_threads(), str(torch.get_default_dtype()),
        torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
        random.getstate(), str(numpy.random.get_state()), str(numpy.get_printoptions()),
        drawing and dict(drawing.rcParams.copy()),
    ]

def look_at(name):
    module = importlib.import_module(name)
    found["changed"] += [f"{name}, part {part}" for part, (a, b) in enumerate(zip(before, state())) if a != b]
    return module

before, found["changed"] = state(), []
for name in ("mask_policy", "visibility_explorer", "span_corruption"):
    module = look_at(f"bertch15.demonstrations.{name}.view")
    if name == "span_corruption":
        module.span_view()
    found[name] = [library for library in ("ipywidgets", "matplotlib") if library in sys.modules]

import bertch15, matplotlib

before[-1] = state()[-1]
# A module named __main__ is a command: importing it would run it.
modules = pkgutil.walk_packages(bertch15.__path__, "bertch15.")
found["names"] = [module.name for module in modules if "__main__" not in module.name]
for name in found["names"]:
    look_at(name)
with open(sys.argv[1], "w") as file:
    json.dump(found, file)
"""


@once
def seen() -> dict[str, Any]:
    """Import torch and then the whole book in a new process, and give what was seen there.

    setters: the public names by which torch, as it is imported, sets something for everybody. policy_view,
    visibility_view, spans: the libraries that draw, of those that these modules have imported. names: the modules
    of the book. changed: what importing them changed for everybody. printed: what all that printed.
    """
    with TemporaryDirectory() as folder:
        told = Path(folder, "seen.json")
        command = [sys.executable, "-c", PROGRAM, str(told)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(told.read_text()) | {"printed": done.stdout + done.stderr}


def without_grammar(folder: Path) -> Path:
    """Give a folder that, on PYTHONPATH, spares a process that reads notebooks two seconds.

    jsonschema would import a grammar of web addresses there, and does without it where it is not installed.
    """
    hidden = folder / "hidden"
    hidden.mkdir(exist_ok=True)
    (hidden / "rfc3987_syntax.py").write_text("raise ImportError('hidden')\n")
    return hidden
