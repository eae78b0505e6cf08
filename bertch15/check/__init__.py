"""What answers the student: one check an exercise, called as `check.visibility(answer)`.

A check never raises at an answer. One that was not touched is `...`; a wrong one is told which mistake it looks
like, and not the right value.
"""

from bertch15.check.exercise_1.matrices import visibility
from bertch15.check.exercise_2.counts import counting, instance
from bertch15.check.exercise_3.assertions import shapes
from bertch15.check.exercise_4.pairs import probe
from bertch15.check.exercise_5.gates import gates
from bertch15.check.exercise_5.prediction import declare
from bertch15.check.exercise_6.auditing import audit
from bertch15.check.exercise_7.tying import tied

__all__ = ["audit", "counting", "declare", "gates", "instance", "probe", "shapes", "tied", "visibility"]


def __dir__() -> list[str]:
    """Offer students the checks, and nothing of the rooms behind them."""
    return __all__
