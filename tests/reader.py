"""A reader of the book: JupyterLab as `make lab` starts it, on loopback alone, and its pages opened in Chromium.

It runs in .venv-html, without torch and the book's package; JupyterLab and the kernels run in .venv.
"""

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
START_SECONDS, STOP_SECONDS, PAINT_SECONDS = 60, 20, 5
FLAGS = [
    *["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
    *["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"],
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # no other name leads anywhere
]
READY = """async () => {
    await window.jupyterapp.restored;
    const page = window.jupyterapp.shell.currentWidget;
    await page.context.ready;
    await page.sessionContext.ready;
    await page.sessionContext.session.kernel.info;
}"""
RUN_ALL = "() => window.jupyterapp.commands.execute('notebook:run-all-cells')"
PICTURE = ".widget-vbox > .widget-html .widget-html-content"
IDLE = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'"
ASK = """async code => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    const asked = kernel.requestExecute({code, store_history: false}), heard = [];
    asked.onIOPub = message => { if (message.content.text) heard.push(message.content.text); };
    await asked.done;
    return heard.join('');
}"""

SCROLL = """async source => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    const asked = new RegExp(source, 'm');
    const place = notebook.widgets.findIndex(cell => asked.test(cell.model.sharedModel.getSource()));
    if (place < 0) return null;
    await notebook.scrollToItem(place, 'start', 0);
    notebook.activeCellIndex = place;
    return notebook.widgets[place].node;
}"""
OUTPUTS = """source => {
    const cells = window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model);
    const asked = new RegExp(source, 'm');
    const meant = cells.filter(cell => asked.test(cell.sharedModel.getSource()));
    return meant.flatMap(cell => cell.toJSON().outputs || []);
}"""
TRUSTED = "() => window.jupyterapp.shell.currentWidget.content.widgets.some(cell => cell.model.trusted)"
SAME = """([picture, html]) => {
    const other = document.createElement('div');
    other.innerHTML = html;
    return picture.innerHTML === other.innerHTML;
}"""
BEGINS = "([cell, words]) => cell.querySelector('[role=status]').innerText.startsWith(words)"
WATCH = """picture => {  // a message that is sent while a frame is prepared arrives when it has been painted
    let pressed = null;
    window.repainted = [];
    document.addEventListener('keydown', event => { pressed = event.timeStamp; }, true);
    new MutationObserver(() => {
        if (pressed === null) return;
        const since = pressed, painted = new MessageChannel();
        pressed = null;
        painted.port1.onmessage = () => window.repainted.push(performance.now() - since);
        requestAnimationFrame(() => painted.port2.postMessage(null));
    }).observe(picture, {childList: true, subtree: true});
}"""


def copy_of_the_book(folder: Path) -> Path:
    """Copy the notebooks, so that nothing that is opened or run changes the stored ones."""
    left_out = shutil.ignore_patterns(".ipynb_checkpoints", "text", "*.part", "*.draft.ipynb")
    return Path(shutil.copytree(ROOT / "notebooks", folder / "notebooks", ignore=left_out))


def settings(folder: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Give an environment in which Jupyter neither reads nor writes anything of the one who runs the tests."""
    kept = {name: value for name, value in environment.items() if not name.startswith(("JUPYTER", "PYTEST"))}
    places = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
    own = {f"JUPYTER_{place}": str(folder / place.lower()) for place in places}
    own |= {f"JUPYTERLAB_{place}_DIR": str(folder / place.lower()) for place in ("SETTINGS", "WORKSPACES")}
    return kept | own | {"IPYTHONDIR": str(folder / "ipython"), "OMP_NUM_THREADS": "1"}


def free_port() -> int:
    """Give a port of this machine on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def jupyterlab(notebooks: Path, folder: Path) -> Iterator[str]:
    """Serve notebooks from a JupyterLab of their own; yields its address, with the token to be given after it."""
    port = free_port()
    token = secrets.token_hex(16)
    command = [str(BOOK), "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"]
    command += [
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={notebooks}",
        f"--IdentityProvider.token={token}",
    ]
    command += ["--LabApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly"]
    log = folder / "jupyterlab.log"
    with log.open("w") as written:
        server = subprocess.Popen(command, cwd=folder, env=settings(folder), stdout=written, stderr=written)
    try:
        wait_until_it_answers(f"http://127.0.0.1:{port}/api?token={token}", server, log)
        yield f"http://127.0.0.1:{port}/doc/tree/{{}}?reset&token={token}"
    finally:
        server.terminate()  # which ends its kernels too
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()


def wait_until_it_answers(address: str, server: subprocess.Popen, log: Path) -> None:
    """Wait for the server's first answer. Raises RuntimeError with its log if there is none."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            with urlopen(address, timeout=5):
                return
        except URLError:
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab does not answer:\n{log.read_text(encoding='utf-8')[-2000:]}")


def chromium(playwright: Any) -> Any:
    """Start the system's Chromium, or the one that playwright has downloaded. Raises playwright's Error."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    return playwright.chromium.launch(executable_path=program, args=FLAGS)


class OpenPage:
    """A notebook opened in a tab, its kernel started and nothing run.

    outside: what the tab asked for beyond this machine. complaints: the errors of its console and its scripts.
    """

    def __init__(self, browser: Any, address: str, name: str) -> None:
        self.tab = browser.new_page(viewport={"width": 1200, "height": 1000})
        self.outside: list[str] = []
        self.complaints: list[str] = []
        here = address.split("/doc/")[0]
        own = (here, here.replace("http", "ws"), "data:", "blob:")
        for event in ("request", "websocket"):
            self.tab.on(event, lambda asked: None if asked.url.startswith(own) else self.outside.append(asked.url))
        self.tab.on("console", lambda told: self.complaints.append(told.text) if told.type == "error" else None)
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.goto(address.format(f"{name}.ipynb"), wait_until="domcontentloaded")
        self.tab.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=START_SECONDS * 1000)
        self.tab.evaluate(READY)

    def run(self) -> bool:
        """Run all cells; give whether all of them went through."""
        went_through = self.tab.evaluate(RUN_ALL)
        self.tab.wait_for_function(IDLE)
        return went_through is True

    def ask(self, code: str) -> str:
        """Have the kernel execute code beside the page; give what it prints."""
        return self.tab.evaluate(ASK, code)

    def cell(self, source: str) -> Any:
        """Bring the first cell whose source has this pattern into sight, so that it is drawn; give its element."""
        found = self.tab.evaluate_handle(SCROLL, source).as_element()
        if found is None:
            raise LookupError(f"the page has no cell {source!r}")
        found.wait_for_element_state("stable")
        return found

    def outputs(self, source: str = "") -> list[dict]:
        """Give the outputs of the cells whose source has this pattern, of all by default, drawn or not."""
        return self.tab.evaluate(OUTPUTS, source)

    def trusted(self) -> bool:
        """Say whether JupyterLab trusts any of the page's stored outputs."""
        return self.tab.evaluate(TRUSTED)

    def log_messages(self) -> str:
        """Give the number that the log console shows, where an error ends that nobody catches; "" for none."""
        return self.tab.locator(".jp-LogConsoleStatusItem").inner_text().strip()

    def close(self) -> None:
        """End the kernel and close the tab."""
        self.tab.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
        self.tab.close()


class Shown:
    """A demonstration on an open page: its cell, its controls by their labels, and its picture."""

    def __init__(self, page: OpenPage, call: str) -> None:
        self.page, self.tab, self.cell = page, page.tab, page.cell(call)
        self.cell.wait_for_selector(PICTURE)

    @property
    def picture(self) -> Any:
        """The element that is repainted."""
        return self.cell.query_selector(PICTURE)

    def focus(self, label: str) -> None:
        """Put the keyboard's focus on the handle of the slider with this label."""
        handle = self.cell.query_selector(f".widget-hslider:has(> .widget-label:text-is('{label}')) .noUi-handle")
        if handle is None:
            raise LookupError(f"no slider is labelled {label!r}")
        handle.focus()

    def press(self, label: str, key: str, times: int = 1) -> None:
        """Press a key on a slider."""
        self.focus(label)
        for _ in range(times):
            self.tab.keyboard.press(key)

    def click(self, button: str) -> None:
        """Press a button by the keyboard."""
        self.cell.query_selector(f"button:text-is('{button}')").press("Enter")

    @property
    def status(self) -> str:
        """What the demonstration says of its own doings."""
        return self.cell.query_selector("[role=status]").inner_text()

    def wait_for_status(self, begins: str, seconds: float) -> None:
        """Wait until the status begins so; raises playwright's TimeoutError if it does not."""
        self.tab.wait_for_function(BEGINS, arg=[self.cell, begins], timeout=seconds * 1000)

    def wait_for(self, html: str) -> None:
        """Wait until the picture is this; raises playwright's TimeoutError if it does not become so."""
        self.tab.wait_for_function(SAME, arg=[self.picture, html], timeout=PAINT_SECONDS * 1000)

    def repainted_after(self, label: str, keys: Sequence[str]) -> list[float]:
        """Press keys on a slider in turn; give the milliseconds from each press to its painted picture."""
        self.focus(label)
        self.tab.evaluate(WATCH, self.picture)
        for count, key in enumerate(keys, start=1):
            self.tab.keyboard.press(key)
            self.tab.wait_for_function(
                "n => window.repainted.length === n", arg=count, timeout=PAINT_SECONDS * 1000
            )
        return self.tab.evaluate("() => window.repainted")
