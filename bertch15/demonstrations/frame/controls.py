"""The frame that all demonstrations share: controls above, below them what a pure function makes of their values.

One HTML widget is repainted in place, by plain observers: no Output widget, which would swallow errors, flicker
and leave copies behind. What goes wrong inside a change is shown where the picture would be.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets

from bertch15.demonstrations.frame.view import View, panel

WIDE = {"description_width": "11em"}
WIDTH = {"width": "30em"}
"""The style and the layout of a control: room for its name, and for a track that can be aimed at."""


class Demonstration:
    """A `view` of some controls' values, painted anew whenever one of them changes.

    view: called with each control's value under the control's name. controls: by name. rows: names of the controls
    that stand side by side; by default each has a row of its own.
    `text` is what is shown, in words. An error in the very first painting is raised, every later one is shown.
    """

    def __init__(
        self,
        view: Callable[..., View],
        controls: Mapping[str, widgets.ValueWidget],
        rows: Sequence[Sequence[str]] = (),
    ) -> None:
        self.view, self.controls = view, dict(controls)
        self.picture = widgets.HTML()
        self.text, self.closed = "", False
        lines = [[self.controls[name] for name in row] for row in rows or [[name] for name in self.controls]]
        self.box = widgets.VBox(
            [*(widgets.HBox(line, layout={"flex_flow": "row wrap"}) for line in lines), self.picture]
        )
        self._paint()
        for control in self.controls.values():
            control.observe(self._changed, "value")

    @property
    def values(self) -> dict[str, Any]:
        """What the controls are set to, by name."""
        return {name: control.value for name, control in self.controls.items()}

    def set(self, **values: Any) -> "Demonstration":
        """Move some controls at once, and paint once; give the demonstration itself.

        Raises ValueError for a control that is not there or a value that it does not take; nothing is moved then.
        """
        unknown = values.keys() - self.controls.keys()
        if unknown:
            raise ValueError(f"no control is named {sorted(unknown)}; there are {list(self.controls)}")
        before = self.values
        self._observe(False)
        try:
            for name, value in values.items():
                self.controls[name].value = value
                if self.controls[name].value != value:
                    raise ValueError(f"{name} does not take {value!r}: it became {self.controls[name].value!r}")
        except Exception as error:
            for name in values:
                self.controls[name].value = before[name]
            raise ValueError(f"{name} does not take {values[name]!r}: {error}") from error
        finally:
            self._observe(True)
        self._changed()
        return self

    def close(self) -> None:
        """Take the demonstration off the page and give its widgets back; a second time does nothing."""
        if self.closed:
            return
        self.closed = True
        self._observe(False)
        for widget in (*self.controls.values(), *self.box.children, self.box):
            for part in (getattr(widget, "style", None), widget.layout, widget):
                if part is not None:
                    part.close()

    def _observe(self, on: bool) -> None:
        for control in self.controls.values():
            if on:
                control.observe(self._changed, "value")
            else:
                control.unobserve(self._changed, "value")

    def _paint(self) -> None:
        self.picture.value, self.text = self.view(**self.values)

    def _changed(self, _: object = None) -> None:
        try:
            self._paint()
        except Exception as error:  # the reader sees it here and nowhere else
            self.text = f"{type(error).__name__}: {error}"
            self.picture.value = panel(f"<p><b>This cannot be shown.</b> {escape(self.text)}</p>")

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """Show the widgets where there is a kernel, and the text where there is none."""
        return {**self.box._repr_mimebundle_(), "text/plain": self.text}


def slider(label: str, value: float, low: float, high: float, step: float) -> widgets.FloatSlider:
    """Make a slider that reports every step on the way."""
    return widgets.FloatSlider(
        value, min=low, max=high, step=step, description=label, readout_format=".2f", style=WIDE, layout=WIDTH
    )


def whole(label: str, value: int, low: int, high: int, step: int = 1) -> widgets.IntSlider:
    """Make a slider over whole numbers."""
    return widgets.IntSlider(value, min=low, max=high, step=step, description=label, style=WIDE, layout=WIDTH)


def choice(label: str, options: Sequence[Any], value: Any) -> widgets.Dropdown:
    """Make a list of which one is chosen: options as values, or as pairs of a name and a value."""
    return widgets.Dropdown(options=options, value=value, description=label, style=WIDE, layout=WIDTH)
