"""The lab under the reader's own policy, run in a process of its own while the kernel answers.

One thread per run looks at the process five times a second and tells what it sees. Start, Stop and the end of a
run may come from any thread, so each change of state is made under one lock. Stopping ends the process; what
that process has started ends with it.
"""

import threading
import time
from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as widgets

from bertch15 import lab
from bertch15.demonstrations.frame.controls import Demonstration, choice, slider, whole
from bertch15.demonstrations.frame.view import View
from bertch15.demonstrations.own_lab.model import Plan, make_plan
from bertch15.demonstrations.own_lab.view import own_lab_view
from bertch15.fast.worker import Worker
from bertch15.lab import LabResult

SECONDS_BETWEEN_LOOKS = 0.2
HINT = "Start runs the lab in a process of its own; other cells can be run meanwhile."


class Run:
    """One run on its way: what was planned, the process at work on it, and its pace."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.ended = plan, threading.Event()
        self.worker = Worker(lab.run, plan.recipe, plan.seeds)
        self.first: tuple[float, float] | None = None  # when there was something done, and how much of it

    @property
    def share(self) -> float:
        """How much of the work is done, in [0, 1]."""
        return self.plan.share(self.worker.done)

    def progress(self) -> str:
        """Say how far the run is; once it has a pace, also how long it will take."""
        now, share = time.monotonic(), self.share
        if not share:
            return "Starting: the process loads what the lab needs."
        if self.first is None:
            self.first = now, share
        since, before = self.first
        if share == before:
            return f"Running: {share:.0%}."
        left = (1 - share) * (now - since) / (share - before)
        return f"Running: {share:.0%}, about {max(1.0, left):.0f} s left."


class OwnLab(Demonstration):
    """The controls, Start and Stop, the progress, and the result beside the chapter's.

    chapter: never changed. mine: the result of the reader's last run that came to its end; None before that.
    status: what goes on, in words.
    """

    def __init__(self, chapter: LabResult) -> None:
        self.chapter = chapter
        self.mine: LabResult | None = None
        self.status = HINT
        self._lock = threading.RLock()
        self._run: Run | None = None
        self.start_button = widgets.Button(description="Start", button_style="primary")
        self.stop_button = widgets.Button(description="Stop")
        self.bar = widgets.FloatProgress(min=0.0, max=1.0, description="progress")
        self.message = widgets.HTML()
        rows = (("rate", "updates"), ("mask_share", "labels"), ("random_share", "seeds"))
        super().__init__(self._view, controls_of(chapter), rows)
        running = widgets.HBox(
            [self.start_button, self.stop_button, self.bar, self.message], layout={"flex_flow": "row wrap"}
        )
        *above, picture = self.box.children
        self.box.children = (*above, running, picture)
        self._say(HINT)
        self.start_button.on_click(lambda _: self._shown(self.start))
        self.stop_button.on_click(lambda _: self._shown(self.stop))

    @property
    def running(self) -> bool:
        """Whether a run is going on."""
        return self._run is not None

    def start(self) -> None:
        """Start a run of what the controls ask for, unless one is going on or the policy cannot be run."""
        with self._lock:
            plan = self._plan(**self.values)
            if self.closed:
                return
            if self._run is not None:
                self._say("A run is going on already: stop it first, or wait for its end.")
            elif plan.complaint:
                self._say(f"Not started. {plan.complaint}")
            else:
                self._run = Run(plan)
                self._say(self._run.progress(), "info")
                watcher = threading.Thread(target=self._watch, args=(self._run,), name="own lab", daemon=True)
                watcher.start()

    def stop(self) -> None:
        """End the run at once and keep nothing of it; an earlier result stays."""
        with self._lock:
            run, self._run = self._run, None
            if run is None:
                self._say("Nothing is running.")
                return
            run.ended.set()
            run.worker.close()
            self._say(f"Stopped at {run.share:.0%}; nothing of this run is kept.", "warning")

    def close(self) -> None:
        """End the run, if one is going on, take the demonstration off the page and give its widgets back."""
        with self._lock:
            if self.closed:
                return
            if self._run is not None:
                self.stop()
            for widget in (self.start_button, self.stop_button, self.bar, self.message):
                for part in (widget.style, widget.layout, widget):
                    part.close()
            super().close()

    def _plan(self, **values: Any) -> Plan:
        return make_plan(self.chapter, **values)

    def _view(self, **values: Any) -> View:
        return own_lab_view(self.chapter, self.mine, self._plan(**values))

    def _paint(self) -> None:
        with self._lock:
            super()._paint()
            self._set_buttons()

    def _set_buttons(self) -> None:
        self.start_button.disabled = self.running or bool(self._plan(**self.values).complaint)
        self.stop_button.disabled = not self.running

    def _say(self, status: str, look: str = "") -> None:
        """Show the status, and the progress of the run if there is one."""
        self.status = status
        self.message.value = f'<span role="status">{escape(status)}</span>'
        self.bar.bar_style = look
        if self._run is not None:
            self.bar.value = self._run.share
        self._set_buttons()

    def _shown(self, action: Callable[[], None]) -> None:
        """Do something whose errors nobody else would show."""
        try:
            action()
        except Exception as error:
            self._say(f"{type(error).__name__}: {error}", "danger")

    def _watch(self, run: Run) -> None:
        """Tell how far the run is, until it is over or stopped."""
        while not run.ended.wait(SECONDS_BETWEEN_LOOKS):
            with self._lock:
                if self._run is not run:
                    return
                if run.worker.finished:
                    self._shown(lambda: self._finish(run))
                    return
                self._shown(lambda: self._say(run.progress(), "info"))

    def _finish(self, run: Run) -> None:
        """Take the result of a run whose process is over, or say why there is none."""
        self._run = None
        run.worker.close()
        if run.worker.result is not None:
            self.mine = run.worker.result
            self.bar.value = 1.0
            self._changed()
            self._say("Done: your rows stand below, beside the chapter's.", "success")
        elif run.worker.error:
            self._say(f"The run ended with an error. {run.worker.error}", "danger")
        else:
            self._say(
                "The process ended without a result: was it ended from outside, for memory? Start again.", "danger"
            )


def controls_of(chapter: LabResult) -> dict[str, widgets.ValueWidget]:
    """Make the controls, set to the chapter's own policy and its first seed."""
    policy, budgets, count = chapter.recipe.policy, chapter.recipe.budgets, len(chapter.replicates)
    labels = [(str(budget), (budget,)) for budget in budgets] + [(", ".join(map(str, budgets)), budgets)]
    seeds = [("one", 1), (f"all {count}", count)] if count > 1 else [("one", 1)]
    controls = {
        "rate": slider("selection rate", policy.rate, 0.0, 1.0, 0.05),
        "mask_share": slider("share of [MASK]", policy.mask_share, 0.0, 1.0, 0.05),
        "random_share": slider("share of random", policy.random_share, 0.0, 1.0, 0.05),
        "updates": whole("updates", min(1000, max(100, chapter.recipe.updates)), 100, 1000, 50),
        "labels": choice("labels per family", labels if len(budgets) > 1 else labels[:1], budgets),
        "seeds": choice("seeds", seeds, 1),
    }
    for control in controls.values():
        control.layout.width = "27em"
    return controls


_latest: OwnLab | None = None


def own_lab(chapter: LabResult) -> OwnLab:
    """Show the lab under the reader's own policy, beside the chapter's result.

    The one shown before is closed and its run ended: else a cell run again would leave a run that nobody sees.
    """
    global _latest
    if _latest is not None and not _latest.closed:
        _latest.close()
    _latest = OwnLab(chapter)
    return _latest
