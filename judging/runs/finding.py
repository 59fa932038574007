"""Finding a run by what people call it."""

from judging.errors import UserError
from judging.models.projects import Project
from judging.models.runs import Run

LATEST = "latest"
# More digits than any number has; Python refuses to read thousands of them.
_LONGEST_NUMBER = 9


def find_run(project: Project, text: str) -> Run:
    """By its number in the project, its name, or `latest`."""
    runs = project.runs.select_related("project")
    text = text.replace("\x00", "")
    if text == LATEST:
        found = runs.order_by("-number").first()
    elif text.isdecimal() and len(text) <= _LONGEST_NUMBER:
        found = runs.filter(number=int(text)).first() or runs.filter(name=text).first()
    else:
        found = runs.filter(name=text).first()
    if found is None:
        known = ", ".join(f"{run.number} ({run.name})" for run in runs.order_by("-number")[:5])
        raise UserError(
            f"Project {project.slug} has no run {text[:120]}. "
            + (f"The last ones are: {known}." if known else "It has no run yet.")
        )
    return found
