"""Which agenda a run follows: what it asks by now, given what has come back."""

from judging.models.runs import Run
from judging.runs.adaptive import adaptive_agenda
from judging.runs.plan import Agenda, Everything
from judging.runs.portia.agenda import PortiaAgenda
from judging.runs.portia.settings import PortiaSettings


def agenda_of(run: Run) -> Agenda:
    """Made anew before each pass over the examples."""
    if "adaptive" in run.parameters:
        return adaptive_agenda(run)
    if portia := PortiaSettings.of(run):
        return PortiaAgenda(run, portia)
    return Everything(run.parts, run.k)
