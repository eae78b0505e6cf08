"""How soon a moved slider is seen to have moved: `make latency` prints it for each demonstration.

Measured in the browser from the key press to the frame that shows the new picture, one press after another.
"""

from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright
from reader import Shown, chromium, copy_of_the_book, jupyterlab
from test_browser import BACK, MOVES, Library

PRESSES = 20


def main() -> None:
    """Print the figures."""
    print(f"milliseconds from key press to painted picture, {PRESSES} presses each")
    with TemporaryDirectory() as name, sync_playwright() as playwright:
        notebooks = copy_of_the_book(Path(name))
        with jupyterlab(notebooks, Path(name)) as address:
            library = Library(chromium(playwright), address, notebooks)
            for move in MOVES:
                shown = Shown(library.ran(move.page), move.cell)
                times = shown.repainted_after(move.label, [move.key, BACK[move.key]] * (PRESSES // 2))
                late = quantiles(times, n=10)[-1]
                print(f"{move.name:20} median {median(times):4.0f}   nine of ten within {late:4.0f}", flush=True)
            library.browser.close()


if __name__ == "__main__":
    main()
