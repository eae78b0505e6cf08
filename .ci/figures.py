"""Write the figures of the book to figures/, as .svg and .png: `python .ci/figures.py`, about ten seconds.

What the pages show is drawn by the same functions from the same numbers. A second call changes no byte.
"""

import sys
from pathlib import Path

from bertch15.figures.gallery import Gallery, write_figures
from bertch15.lab import run

FIGURES = Path(__file__).resolve().parent.parent / "figures"


def main() -> int:
    """Run the lab, write the figures, and say what changed."""
    FIGURES.mkdir(exist_ok=True)
    for path, changed in write_figures(Gallery.of(run()), FIGURES).items():
        print(f"{path.relative_to(FIGURES.parent)}: {'rewritten' if changed else 'unchanged'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
