"""What answers the student: one check an exercise, called as `check.visibility(answer)`.

A check never raises at an answer. One that was not touched is `...`; a wrong one is told which mistake it looks
like, and not the right value.
"""
