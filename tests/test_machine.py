import json
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

import psutil
import pytest

import bertch15
from bertch15 import doctor
from bertch15.doctor import Finding

BASE = ["torch", "numpy", "matplotlib", "jupyterlab", "jupytext", "nbval", "ipywidgets", "tqdm", "pytest"]


def test_this_machine_has_all_that_the_book_needs() -> None:
    findings = list(doctor.examine())
    assert [str(finding) for finding in findings if not finding.ok] == []
    seen = "\n".join(map(str, findings))
    for name in ["bertch15", "Python", *BASE, "kernel python3", "JupyterLab's widget extension"]:
        assert f"\n[OK] {name} " in "\n" + seen
    assert seen.count("can be written") == 2
    assert f"[OK] torch {metadata.version('torch')} (needed: >=2.4)" in seen


def test_a_finding_says_what_to_do_only_if_something_is_amiss() -> None:
    assert str(Finding(True, "numpy 2.4.6", "Install it")) == "[OK] numpy 2.4.6"
    assert str(Finding(False, "numpy is missing", "Install it")) == "[FAIL] numpy is missing. Install it."


class TestPackages:
    @pytest.mark.parametrize(
        ("requirement", "seen"),
        [
            ("no-such-package>=1", "no-such-package is missing (needed: >=1)"),
            ("numpy>=999", f"numpy {metadata.version('numpy')} (needed: >=999)"),
            ("numpy>=1,<1.1", f"numpy {metadata.version('numpy')} (needed: <1.1,>=1)"),
        ],
    )
    def test_what_is_missing_or_outside_the_range_fails(self, requirement: str, seen: str) -> None:
        finding = doctor.package_finding(requirement)
        assert (finding.ok, finding.seen) == (False, seen)
        assert "make env" in finding.remedy

    def test_a_local_build_and_a_preview_lie_in_the_range(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for version in ("2.13.0+cpu", "2.14.0.dev20260101"):
            monkeypatch.setattr(metadata, "version", lambda name, version=version: version)
            assert doctor.package_finding("torch>=2.4").ok

    def test_an_installed_package_that_does_not_load_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def no_library(name: str) -> None:
            raise OSError("a DLL could not be found")

        monkeypatch.setattr(doctor, "import_module", no_library)
        finding = doctor.package_finding("torch>=2.4")
        assert not finding.ok
        assert "does not load: a DLL could not be found" in finding.seen

    def test_a_package_of_another_version_than_the_installed_one_fails(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bertch15, "__version__", "0.9.0")
        finding = doctor.book_finding()
        assert not finding.ok
        assert finding.seen.startswith("bertch15 0.9.0 from ")

    def test_a_package_that_is_not_installed_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def absent(name: str) -> str:
            raise metadata.PackageNotFoundError(name)

        for function in ("version", "requires", "metadata"):
            monkeypatch.setattr(metadata, function, absent)
        monkeypatch.setattr(doctor, "kernel_finding", lambda limit: Finding(True, "kernel python3"))
        book, python, *rest = doctor.examine()
        assert not book.ok
        assert "is not installed" in book.seen
        assert not python.ok
        assert [finding for finding in rest if any(name in finding.seen for name in BASE)] == []

    def test_python_is_held_to_the_declared_range(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(doctor.platform, "python_version", lambda: "3.10.13")
        finding = doctor.python_finding()
        assert not finding.ok
        assert finding.seen.startswith("Python 3.10.13 ")


def test_it_reports_where_nothing_can_be_imported() -> None:
    absent = ["torch", "numpy", "packaging", "jupyter_client", "jupyter_core", "IPython", "tqdm"]
    program = (
        "import runpy, sys\n"
        f"sys.modules.update(dict.fromkeys({absent}))\n"
        "sys.argv = ['bertch15', 'check']\n"
        "runpy.run_module('bertch15', run_name='__main__')\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (answer.returncode, answer.stderr) == (1, "")
    failed = [line for line in answer.stdout.splitlines() if line.startswith("[FAIL]")]
    for name in ["Python", *BASE, "kernel python3", "Jupyter's runtime folder"]:
        assert any(line.startswith(f"[FAIL] {name}") for line in failed), name
    assert answer.stdout.splitlines()[-1] == f"To be mended: {len(failed)}."


def install_kernel(folder: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Put a kernel `python3` that runs this program before the environment's own."""
    spec = {"argv": [sys.executable, "-c", program], "display_name": "hiding", "language": "python"}
    (folder / "kernels" / "python3").mkdir(parents=True)
    (folder / "kernels" / "python3" / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(folder))


class TestKernel:
    def test_it_leaves_no_file_and_no_process(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("USERPROFILE", str(tmp_path))
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        before = {child.pid for child in psutil.Process().children(recursive=True)}
        assert doctor.kernel_finding(60).ok
        assert {child.pid for child in psutil.Process().children(recursive=True)} == before
        assert list(tmp_path.iterdir()) == []

    def test_one_that_never_answers_is_given_up_and_ended(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        note = tmp_path / "pid"
        program = (
            f"import os, pathlib, time; pathlib.Path({str(note)!r}).write_text(str(os.getpid())); time.sleep(99)"
        )
        install_kernel(tmp_path, monkeypatch, program)
        begin = time.monotonic()
        finding = doctor.guarded("kernel python3", lambda: doctor.kernel_finding(2))
        assert time.monotonic() - begin < 60, "the kernel was waited for"
        assert not finding.ok
        assert finding.seen == "kernel python3: RuntimeError: no answer in time"
        assert not psutil.pid_exists(int(note.read_text()))

    def test_one_that_dies_is_quoted(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        install_kernel(tmp_path, monkeypatch, "import sys; sys.exit('No module named ipykernel')")
        finding = doctor.guarded("kernel python3", lambda: doctor.kernel_finding(60))
        assert not finding.ok
        assert finding.seen.endswith("No module named ipykernel")

    def test_one_that_cannot_import_the_book_is_quoted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(doctor, "QUESTION", "import bertch16")
        finding = doctor.guarded("kernel python3", lambda: doctor.kernel_finding(60))
        assert not finding.ok
        assert finding.seen.endswith("ModuleNotFoundError: No module named 'bertch16'")

    @pytest.mark.parametrize(
        ("answer", "seen"),
        [
            ((sys.prefix + "-of-another", bertch15.__version__), "is another Python's"),
            ((sys.prefix, "0.9.0"), "imports bertch15 0.9.0, not"),
        ],
    )
    def test_another_python_or_another_book_fails(
        self, answer: tuple[str, str], seen: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(doctor, "ask_kernel", lambda folder, deadline: answer)
        finding = doctor.kernel_finding(60)
        assert not finding.ok
        assert seen in finding.seen


def test_the_widget_extension_must_lie_in_this_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert not doctor.widget_finding().ok
    folder = tmp_path / "share" / "jupyter" / "labextensions" / "@jupyter-widgets" / "jupyterlab-manager"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"version": "5.0.16"}')
    assert str(doctor.widget_finding()) == "[OK] JupyterLab's widget extension 5.0.16"


class TestFolders:
    def test_one_that_can_be_written_is_left_as_it_was(self, tmp_path: Path) -> None:
        assert doctor.folder_finding("a folder", tmp_path).ok
        assert doctor.folder_finding("a folder", tmp_path / "not" / "yet").ok
        assert list(tmp_path.iterdir()) == []

    def test_one_that_cannot_be_written_fails(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        finding = doctor.folder_finding("a folder", tmp_path / "file" / "below")
        assert not finding.ok
        assert "cannot be written: " in finding.seen

    def test_a_package_apart_from_the_book_looks_at_the_current_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert doctor.notebooks_folder() == Path(bertch15.__file__).parent.parent / "notebooks"
        monkeypatch.setattr(bertch15, "__file__", str(tmp_path / "bertch15" / "__init__.py"))
        monkeypatch.chdir(tmp_path)
        assert doctor.notebooks_folder() == tmp_path


def test_whatever_goes_wrong_in_looking_is_a_finding() -> None:
    def look() -> Finding:
        raise LookupError("nobody home")

    finding = doctor.guarded("the house", look)
    assert str(finding).startswith("[FAIL] the house: LookupError: nobody home. ")
