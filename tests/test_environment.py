import ast
import importlib.util
import json
import os
import re
import shutil
import sys
import sysconfig
import tomllib
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import env
import html_env
import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA_NAMES = {"pytorch-cpu": "torch"}

NO_WHEEL = "ERROR: ResolutionImpossible: for help visit the page on conflicts\n"
NO_VERSION = "ERROR: No matching distribution found for torch==2.13.0\n"
NO_NETWORK = (
    "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError'\n"
    "ERROR: No matching distribution found for setuptools>=77\n"
)
NO_SPACE = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n"

posix = pytest.mark.skipif(os.name == "nt", reason="the interpreter's stand-in is a shell script")


def constraints() -> dict[str, Requirement]:
    lines = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    by_name: dict[str, Requirement] = {canonicalize_name(pin.name): pin for pin in pins}
    assert len(by_name) == len(pins)
    return by_name


def pinned(requirement: Requirement) -> str:
    (specifier,) = requirement.specifier
    assert specifier.operator == "=="
    return specifier.version


class TestConstraints:
    def test_torch_is_the_tested_one_without_the_name_of_a_build(self) -> None:
        assert str(constraints()["torch"]) == "torch==2.13.0"

    def test_every_line_pins_one_version_of_one_published_package(self) -> None:
        for pin in constraints().values():
            assert Version(pinned(pin)).local is None
            assert (pin.url, pin.marker, pin.extras) == (None, None, set())

    @pytest.mark.parametrize(
        "declared", [*PROJECT["dependencies"], *chain(*PROJECT["optional-dependencies"].values())], ids=str
    )
    def test_they_lie_in_the_public_ranges(self, declared: str) -> None:
        requirement = Requirement(declared)
        assert pinned(constraints()[canonicalize_name(requirement.name)]) in requirement.specifier

    def test_they_leave_the_installer_and_the_book_alone(self) -> None:
        assert not {"pip", "setuptools", "wheel", "bertch15"} & set(constraints())


class Conda:
    """environment.yml, read."""

    def __init__(self) -> None:
        self.document = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
        self.lines: list[str] = [entry for entry in self.document["dependencies"] if isinstance(entry, str)]
        (self.by_pip,) = [entry["pip"] for entry in self.document["dependencies"] if isinstance(entry, dict)]

    def range_of(self, name: str) -> SpecifierSet:
        """The range of a package; conda's `=3.11` is pip's `==3.11.*`."""
        (line,) = [line for line in self.lines if name_of(line) == name]
        return SpecifierSet(re.sub(r"^=([^=]+)$", r"==\1.*", line.removeprefix(name).strip()))


def name_of(line: str) -> str:
    """The package that a line of environment.yml asks for."""
    return re.split(r"[=<>~! ]", line)[0]


@pytest.fixture
def conda() -> Conda:
    return Conda()


class TestCondaEnvironment:
    def test_name_and_channel(self, conda: Conda) -> None:
        assert (conda.document["name"], conda.document["channels"]) == ("bertch15", ["conda-forge"])

    def test_the_packages_are_those_of_pyproject(self, conda: Conda) -> None:
        names = {name_of(line) for line in conda.lines}
        declared = {Requirement(line).name for line in PROJECT["dependencies"]}
        assert {CONDA_NAMES.get(name, name) for name in names} - {"python", "pip"} == declared
        assert {"python", "pip"} <= names

    @pytest.mark.parametrize("declared", PROJECT["dependencies"], ids=str)
    def test_the_ranges_start_inside_those_of_pyproject_and_hold_the_tested_version(
        self, conda: Conda, declared: str
    ) -> None:
        requirement = Requirement(declared)
        names = {theirs: ours for ours, theirs in CONDA_NAMES.items()}
        offered = conda.range_of(names.get(requirement.name, requirement.name))
        least = [specifier.version for specifier in offered if specifier.operator == ">="]
        assert len(least) == 1
        assert least[0] in requirement.specifier
        assert pinned(constraints()[canonicalize_name(requirement.name)]) in offered

    def test_python_is_one_that_the_book_takes(self, conda: Conda) -> None:
        (specifier,) = conda.range_of("python")
        assert specifier.operator == "=="
        assert Version(specifier.version.removesuffix(".*")) in SpecifierSet(PROJECT["requires-python"])

    def test_no_build_is_named(self, conda: Conda) -> None:
        # A build string belongs to one system: `numpy=2.4=py311h1` or `numpy 2.4 py311h1`.
        assert [
            line for line in conda.lines if not re.fullmatch(r"[\w.-]+ ?(=|>=|,?<)[\d.]+(,<[\d.]+)?", line)
        ] == []

    def test_the_book_itself_comes_by_pip_from_the_folder_of_the_file(self, conda: Conda) -> None:
        # conda hands these lines to pip as a requirements file, with the file's folder as the current one.
        assert conda.by_pip == ["-e ."]
        assert (ROOT / "environment.yml").parent == (ROOT / "pyproject.toml").parent


class Recorder:
    """A runner that installs nothing: it notes what it is asked, and answers pip from a list."""

    def __init__(self, root: Path, answers: list[tuple[int, str]], name: str = ".venv") -> None:
        self.root, self.answers, self.name = root, answers, name
        self.commands: list[list[str]] = []
        self.pins: list[list[str]] = []

    def __call__(self, command: list[str], root: Path) -> tuple[int, str]:
        self.commands.append(command)
        assert root == self.root
        if command[1:3] == ["-m", "venv"]:
            shutil.rmtree(self.root / self.name, ignore_errors=True)
            stand_in(self.root, self.root / "bertch15" / "__init__.py", self.name)
            return 0, ""
        self.pins.append((root / command[command.index("--constraint") + 1]).read_text().split())
        return self.answers.pop(0)

    @property
    def created(self) -> int:
        return sum(command[1:3] == ["-m", "venv"] for command in self.commands)


def stand_in(root: Path, imported: Path, name: str = ".venv") -> None:
    """Put something in place of an environment's interpreter that claims to import this file."""
    python = env.Environment(root, name=name).python
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text(f"#!/bin/sh\necho '{imported}'\n")
    python.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "a book"
    (root / ".ci").mkdir(parents=True)
    (root / "bertch15").mkdir()
    (root / "bertch15" / "__init__.py").touch()
    (root / "pyproject.toml").write_text("[project]\n")
    (root / ".ci" / "constraints.txt").write_text("# tested\nnumpy==2.4.6\ntorch==2.13.0\n")
    (root / ".ci" / "html-constraints.txt").write_text("nbconvert==7.17.2\n")
    return root


def update(root: Path, *answers: tuple[int, str], extras: tuple[str, ...] = ()) -> Recorder:
    """Update with a recorder; pip gives the answers in turn, and none may be left over."""
    recorder = Recorder(root, list(answers))
    env.Environment(root, recorder).update(extras)
    assert recorder.answers == []
    return recorder


def fails(root: Path, *answers: tuple[int, str]) -> tuple[Recorder, str]:
    """Update, which must fail; give the recorder and what the reader is told."""
    recorder = Recorder(root, list(answers))
    with pytest.raises(env.Trouble) as caught:
        env.Environment(root, recorder).update()
    assert recorder.answers == []
    assert not env.Environment(root).read_record()
    return recorder, str(caught.value)


@posix
class TestFirstCall:
    def test_it_makes_the_environment_and_installs_the_tested_versions(self, checkout: Path) -> None:
        recorder = update(checkout, (0, ""))
        make, install = recorder.commands
        assert make[1:] == ["-m", "venv", "--clear", str(checkout / ".venv")]
        assert install[0] == str(checkout / ".venv" / "bin" / "python")
        assert install[1:5] == ["-I", "-m", "pip", "install"]
        assert install[install.index("--only-binary") + 1] == ":all:"
        assert install[install.index("--editable") + 1] == "."
        assert recorder.pins == [["numpy==2.4.6", "torch==2.13.0"]]
        assert env.Environment(checkout).read_record()["versions"] == "the tested versions"

    def test_a_second_call_does_nothing(self, checkout: Path) -> None:
        update(checkout, (0, ""))
        assert update(checkout).commands == []

    def test_jupyterlab_does_not_ask_about_news(self, checkout: Path) -> None:
        update(checkout, (0, ""))
        overrides = checkout / ".venv" / "share" / "jupyter" / "lab" / "settings" / "overrides.json"
        chosen = json.loads(overrides.read_text())["@jupyterlab/apputils-extension:notification"]
        assert chosen == {"fetchNews": "false", "checkForUpdates": False}


@posix
class TestLadder:
    def test_no_wheel_of_one_pin_leaves_the_tested_torch(
        self, checkout: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        recorder = update(checkout, (1, NO_WHEEL), (0, ""))
        assert recorder.pins[1:] == [["torch==2.13.0"]]
        assert "cannot have the tested versions." in capsys.readouterr().out

    def test_no_wheel_of_the_tested_torch_leaves_the_public_ranges(
        self, checkout: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        recorder = update(checkout, (1, NO_VERSION), (1, NO_VERSION), (0, ""))
        assert recorder.pins[2:] == [[]]
        assert recorder.created == 1
        assert "cannot have the tested torch with the newest of the rest." in capsys.readouterr().out
        versions = env.Environment(checkout).read_record()["versions"]
        assert versions == "the newest versions that pyproject.toml allows"

    def test_no_wheels_at_all_name_another_python(self, checkout: Path) -> None:
        assert "another Python" in fails(checkout, (1, NO_WHEEL), (1, NO_WHEEL), (1, NO_WHEEL))[1]

    def test_no_network_is_no_reason_to_climb_down(self, checkout: Path) -> None:
        assert "network" in fails(checkout, (1, NO_NETWORK))[1]

    def test_any_other_failure_stops_too(self, checkout: Path) -> None:
        assert "disk" in fails(checkout, (1, NO_SPACE))[1]

    def test_pip_may_not_say_done_and_have_installed_elsewhere(self, checkout: Path) -> None:
        def elsewhere(command: list[str], root: Path) -> tuple[int, str]:
            answer = recorder(command, root)
            stand_in(root, Path("/elsewhere/bertch15/__init__.py"))
            return answer

        recorder = Recorder(checkout, [(0, "")])
        with pytest.raises(env.Trouble, match="PIP_TARGET"):
            env.Environment(checkout, elsewhere).update()
        assert not env.Environment(checkout).read_record()


def other_python(root: Path, patch: pytest.MonkeyPatch) -> Path:
    known = sysconfig.get_config_var
    patch.setattr(sysconfig, "get_config_var", lambda name: ".other.so" if name == "EXT_SUFFIX" else known(name))
    return root


def moved(root: Path, patch: pytest.MonkeyPatch) -> Path:
    root = root.rename(root.with_name("another place"))
    stand_in(root, root / "bertch15" / "__init__.py")
    return root


def of_another_checkout(root: Path, patch: pytest.MonkeyPatch) -> Path:
    stand_in(root, root.with_name("another place") / "bertch15" / "__init__.py")
    return root


def broken(root: Path, patch: pytest.MonkeyPatch, name: str = ".venv") -> Path:
    (root / name / "bin" / "python").unlink()
    (root / name / "bin" / "python").symlink_to("/nowhere/python")
    return root


def failing(root: Path, patch: pytest.MonkeyPatch, name: str = ".venv") -> Path:
    python = root / name / "bin" / "python"
    python.write_text(python.read_text() + "exit 1\n")
    return root


def half_finished(root: Path, patch: pytest.MonkeyPatch) -> Path:
    (root / ".venv" / "bertch15.json").unlink()
    return root


def garbled(root: Path, patch: pytest.MonkeyPatch) -> Path:
    (root / ".venv" / "bertch15.json").write_text('{"place": ')
    return root


def gone(root: Path, patch: pytest.MonkeyPatch) -> Path:
    shutil.rmtree(root / ".venv")
    return root


@posix
class TestStaleness:
    @pytest.mark.parametrize("name", ["pyproject.toml", ".ci/constraints.txt"])
    def test_other_requirements_are_installed_into_the_same_environment(self, checkout: Path, name: str) -> None:
        update(checkout, (0, ""))
        (checkout / name).write_text((checkout / name).read_text() + "# another line\n")
        recorder = update(checkout, (0, ""))
        assert (recorder.created, len(recorder.pins)) == (0, 1)
        assert update(checkout).commands == []

    @pytest.mark.parametrize(
        "change",
        [other_python, moved, of_another_checkout, broken, failing, half_finished, garbled, gone],
    )
    def test_what_an_environment_cannot_survive_makes_it_anew(
        self, checkout: Path, change: Callable[[Path, pytest.MonkeyPatch], Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        update(checkout, (0, ""))
        checkout = change(checkout, monkeypatch)
        assert update(checkout, (0, "")).created == 1
        assert update(checkout).commands == []

    def test_an_extra_is_added_and_stays(self, checkout: Path) -> None:
        update(checkout, (0, ""))
        recorder = update(checkout, (0, ""), extras=("check",))
        assert recorder.created == 0
        assert recorder.commands[0][-1] == ".[check]"
        assert update(checkout).commands == []
        assert update(checkout, extras=("check",)).commands == []
        (checkout / "pyproject.toml").write_text("[project]\n# changed\n")
        assert update(checkout, (0, "")).commands[0][-1] == ".[check]"

    def test_an_interrupted_update_is_begun_anew(self, checkout: Path) -> None:
        update(checkout, (0, ""))
        (checkout / "pyproject.toml").write_text("[project]\n# changed\n")

        def interrupted(command: list[str], root: Path) -> tuple[int, str]:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            env.Environment(checkout, interrupted).update()
        assert update(checkout, (0, "")).created == 1

    def test_a_failed_update_is_begun_anew(self, checkout: Path) -> None:
        update(checkout, (0, ""))
        (checkout / "pyproject.toml").write_text("[project]\n# changed\n")
        fails(checkout, (1, NO_NETWORK))
        assert update(checkout, (0, "")).created == 1


@posix
class TestStaticEdition:
    """The environment `.venv-html`, by .ci/html_env.py."""

    def test_it_is_made_and_gets_what_builds_from_its_own_constraints(self, checkout: Path) -> None:
        recorder = Recorder(checkout, [(0, "")], name=".venv-html")
        html_env.update(checkout, False, recorder)
        make, install = recorder.commands
        assert make[1:] == ["-m", "venv", "--clear", str(checkout / ".venv-html")]
        assert install[0] == str(checkout / ".venv-html" / "bin" / "python")
        assert install[1:5] == ["-I", "-m", "pip", "install"]
        assert install[install.index("--only-binary") + 1] == ":all:"
        assert install[-4:] == [".ci/html-constraints.txt", "nbconvert", "latex2mathml", "ziamath"]
        assert recorder.pins == [["nbconvert==7.17.2"]]

    def test_one_that_works_is_kept_and_gets_what_the_tests_need(self, checkout: Path) -> None:
        html_env.update(checkout, False, Recorder(checkout, [(0, "")], name=".venv-html"))
        recorder = Recorder(checkout, [(0, "")], name=".venv-html")
        html_env.update(checkout, True, recorder)
        (install,) = recorder.commands
        assert install[-5:] == ["nbconvert", "latex2mathml", "ziamath", "pytest", "playwright"]

    @pytest.mark.parametrize("change", [broken, failing])
    def test_one_that_does_not_work_is_made_anew(
        self, checkout: Path, change: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        html_env.update(checkout, False, Recorder(checkout, [(0, "")], name=".venv-html"))
        change(checkout, monkeypatch, ".venv-html")
        recorder = Recorder(checkout, [(0, "")], name=".venv-html")
        html_env.update(checkout, False, recorder)
        assert recorder.created == 1

    @pytest.mark.parametrize(("said", "told"), [(NO_NETWORK, "the network"), (NO_SPACE, "Is the disk full?")])
    def test_what_pip_could_not_do_is_told(self, checkout: Path, said: str, told: str) -> None:
        with pytest.raises(env.Trouble, match=told):
            html_env.update(checkout, False, Recorder(checkout, [(1, said)], name=".venv-html"))

    def test_every_package_that_it_names_is_pinned(self) -> None:
        pins = (ROOT / ".ci" / "html-constraints.txt").read_text(encoding="utf-8").splitlines()
        assert {"nbconvert", "playwright"} <= {*html_env.BUILDS, *html_env.TESTS}
        assert {*html_env.BUILDS, *html_env.TESTS} <= {pin.split("==")[0] for pin in pins}


@pytest.mark.parametrize("name", ["env.py", "html_env.py", "make.py"])
class TestScripts:
    def test_an_old_python_can_read_it(self, name: str) -> None:
        ast.parse((ROOT / ".ci" / name).read_text(encoding="utf-8"), feature_version=(3, 6))

    def test_it_needs_the_standard_library_alone(self, name: str) -> None:
        nodes = list(ast.walk(ast.parse((ROOT / ".ci" / name).read_text(encoding="utf-8"))))
        modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        modules |= {node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)}
        assert "subprocess" in modules
        assert {name.split(".")[0] for name in modules} <= sys.stdlib_module_names | {"env"}


class TestMessages:
    def test_the_readme_and_a_full_disk_tell_the_same_space(self, checkout: Path) -> None:
        needed = re.search(r"about (\d+ GB) of disk", README)
        with_cuda = re.search(r"brings CUDA there,\s+and\s+needs\s+(\d+ GB)", README)
        assert needed
        assert with_cuda
        told = str(env.pip_trouble(NO_SPACE))
        assert f"takes about {needed[1]}, with a CUDA torch {with_cuda[1]}." in told

    def test_an_old_python_is_told_so(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys, "version_info", (3, 10, 13, "final", 0))
        assert env.main() == 1
        assert "needs Python 3.11 or newer" in capsys.readouterr().err

    def test_a_missing_venv_module_is_named(self, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        recorder, told = fails(checkout)
        assert "python3-venv" in told
        assert recorder.commands == []

    def test_a_folder_that_cannot_be_made_is_named(self, checkout: Path) -> None:
        with pytest.raises(env.Trouble, match="could not be made"):
            env.Environment(checkout, lambda command, root: (1, "Error: busy\n")).update()

    @pytest.mark.parametrize(
        ("error", "code", "told"),
        [
            (env.Trouble("Check the network."), 1, "Check the network."),
            (PermissionError(13, "Permission denied", "x"), 1, "could not be made: "),
            (KeyboardInterrupt(), 130, "Interrupted"),
        ],
    )
    def test_what_goes_wrong_is_told_in_a_line(
        self,
        error: BaseException,
        code: int,
        told: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        def fail(*_: object) -> bool:
            raise error

        monkeypatch.setattr(env.Environment, "update", fail)
        monkeypatch.setattr(sys, "argv", ["env.py"])
        assert env.main() == code
        assert told in capsys.readouterr().err

    def test_the_runner_shows_and_keeps_what_is_said(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        program = "import os, sys; print(os.getcwd(), file=sys.stderr); sys.exit(3)"
        answer = env.run_shown([sys.executable, "-c", program], tmp_path)
        assert answer == (3, f"{tmp_path.resolve()}\n")
        assert capsys.readouterr().err == answer[1]
