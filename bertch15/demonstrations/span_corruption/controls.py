"""The demonstration of 15.7: span corruption, and the same sentence as BERT and GPT see it."""

from bertch15.demonstrations.frame.controls import Demonstration, choice, slider, whole
from bertch15.demonstrations.span_corruption.model import SENTENCES
from bertch15.demonstrations.span_corruption.view import span_view


def span_corruption() -> Demonstration:
    """Give the demonstration of span corruption.

    Its controls: sentence, density (in [0, 1]), mean_span (1 to 10), redraw (0 to 100).
    """
    named = [(f"{len(sentence.split())} words: {sentence}", sentence) for sentence in SENTENCES]
    controls = {
        "sentence": choice("sentence", named, SENTENCES[0]),
        "density": slider("density", 0.15, 0.0, 1.0, 0.05),
        "mean_span": slider("mean span length", 3.0, 1.0, 10.0, 0.5),
        "redraw": whole("redraw", 0, 0, 100),
    }
    controls["sentence"].layout.width = "42em"
    return Demonstration(span_view, controls, [["sentence"], ["density", "mean_span"], ["redraw"]])
