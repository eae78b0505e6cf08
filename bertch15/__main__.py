"""The book on the command line: look at the machine, or run the lab."""

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

LARGEST_SEED = 2**63 - 1


def seed(text: str) -> int:
    """Read a seed: a whole number from 0 to 2^63 - 1."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"a seed is a whole number from 0 to {LARGEST_SEED}, not {text!r}")
    return number


def new_file(text: str) -> Path:
    """Read the path of a file to write, and make sure that it can be written. Links are followed."""
    path = Path(text).resolve()
    if path.exists() and not path.is_file():
        raise argparse.ArgumentTypeError(f"{text} is no ordinary file")
    if path.exists() and not os.access(path, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text} is write-protected")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text} cannot be written: {error.strerror}") from error
    return path


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step: whoever reads it finds the old content or the new, never a part."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process in the block without further ado, with exit code 130.

    Nothing in the block may need to be put away. An exception would have to wait for the replicates under way,
    and while torch is being imported it can come out as another one.
    """

    def leave(*_: object) -> NoReturn:
        os.write(2, b"\nInterrupted.\n")
        os._exit(130)

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def check(options: argparse.Namespace) -> int:
    """Print what was found on this machine; 1 if anything is amiss."""
    from bertch15.doctor import examine

    failures = 0
    for finding in examine():
        print(finding, flush=True)
        failures += not finding.ok
    print("This machine has all that the book needs." if not failures else f"To be mended: {failures}.")
    return 1 if failures else 0


def lab(options: argparse.Namespace) -> int:
    """Run the transfer lab and print the chapter's lines; write them and all numbers to a file if asked to."""
    with leaving_at_once():
        try:
            from bertch15 import lab
            from bertch15.display import printed, progress
            from bertch15.recipe import SEEDS, Recipe
        except ImportError as error:
            print(f"{error}. See `python -m bertch15 check`.", file=sys.stderr)
            return 1
        with progress.bar("lab") as onward:
            result = lab.run(Recipe(), seeds=options.seeds or SEEDS, progress=onward)
    lines = list(printed.lines(result))
    print("\n".join(lines), flush=True)
    if options.json:
        write_whole(
            options.json, json.dumps({"lines": lines, **result.to_dict()}, indent=1, allow_nan=False) + "\n"
        )
    return 0


def new_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(prog="python -m bertch15", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    command = commands.add_parser("check", help="is everything here that the book needs?")
    command.set_defaults(act=check)
    command = commands.add_parser("lab", help="run the transfer lab of section 15.6")
    command.set_defaults(act=lab)
    command.add_argument("--seeds", type=seed, nargs="+", metavar="S", help="default: 6050 to 6054, the chapter's")
    command.add_argument("--json", type=new_file, metavar="FILE", help="write all numbers to this file as well")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks; give the exit code."""
    parser = new_parser()
    options = parser.parse_args(arguments)
    seeds = getattr(options, "seeds", None) or ()
    if len(set(seeds)) != len(seeds):
        parser.error(f"argument --seeds: a seed stands twice in {' '.join(map(str, seeds))}")
    try:
        return options.act(options)
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
