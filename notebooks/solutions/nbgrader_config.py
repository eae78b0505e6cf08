"""Let nbgrader make of a solution the same student version as `make exercises` does.

The teacher's page, beside this file, says how it is used.
"""

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "bertch15"
c.ClearSolutions.code_stub = {"python": "...  # your code here"}
c.Execute.timeout = 300  # seconds for a cell: nbgrader's own 30 may cut a training short
c.GenerateAssignment.preprocessors.prepend(["nbconvert.preprocessors.TagRemovePreprocessor"])
c.TagRemovePreprocessor.enabled = True
c.TagRemovePreprocessor.remove_cell_tags = ["solution-only"]
