"""What answers the student: one check an exercise, called as `check.visibility(answer)`.

A check never raises at an answer. One that was not touched is `...`; a wrong one is told which mistake it looks
like, and not the right value.
"""

from bertch15.check.auditing import audit
from bertch15.check.conclusions import gates
from bertch15.check.counts import counting, instance
from bertch15.check.declaration import declare
from bertch15.check.matrices import visibility
from bertch15.check.pairs import probe
from bertch15.check.tying import tied
from bertch15.check.wiring import shapes

__all__ = ["audit", "counting", "declare", "gates", "instance", "probe", "shapes", "tied", "visibility"]
