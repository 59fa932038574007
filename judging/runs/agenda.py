"""Which agenda a run follows: what it asks by now, given what has come back."""

from judging.models import Run
from judging.runs.adaptive import adaptive_agenda
from judging.runs.plan import Agenda, Everything


def agenda_of(run: Run) -> Agenda:
    """Made anew before each pass over the examples."""
    if "adaptive" in run.parameters:
        return adaptive_agenda(run)
    return Everything(run.parts, run.k)
