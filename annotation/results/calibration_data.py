"""What the calibration section reads: P(t1) under each permutation, of this run and others."""

from collections.abc import Sequence

import numpy as np

from annotation.results.analysis import Analysis
from annotation.results.figures import Json
from annotation.results.sections import Data
from judging.methods.estimates import Undefined
from judging.models.runs import Form, Run
from judging.runs.calibrating import answers, by_kind, settings_of
from judging.runs.probabilities import token_table

MOST_BESIDE = 8
NO_PROBABILITIES = Undefined("this run asked for no probabilities: ask for the form choice")
NONE_YET = Undefined("no example has a probability yet")


def read_calibration(of: Analysis) -> Data | Undefined:
    if of.run.form != Form.CHOICE or not of.run.parameters.get("permutations"):
        return NO_PROBABILITIES
    table, masses = token_table(of.run, of.sheet.ids)
    if np.isnan(table).all():
        return NONE_YET
    arrays = {"p_t1": table, "mass": masses}
    beside = []
    for place, run in enumerate(runs_beside(of.run)):
        arrays[f"beside.{place}"], _ = token_table(run, of.sheet.ids)
        beside.append(named(run))
    nothing, random = by_kind(answers(of.run))
    plain = {
        "own": named(of.run),
        "settings": settings_of(of.run),
        "band": float(of.run.band),
        "nothing": nothing,
        "random": random,
        "beside": beside,
    }
    return Data(arrays, plain)


def runs_beside(run: Run) -> Sequence[Run]:
    """The newest choice runs of the same judge, which differ in what the section compares."""
    same = run.project.runs.filter(form=Form.CHOICE, model=run.model, ranked_at__isnull=False)
    found = list(same.exclude(pk=run.pk).order_by("-number")[:50])
    return [one for one in found if one.parameters.get("permutations")][:MOST_BESIDE]


def named(run: Run) -> Json:
    """What a choice run was asked under; a recorded one does not say."""
    output = run.parameters.get("output", {})
    return {
        "run": run.name,
        "permutations": list(run.parts),
        "ids": list(output.get("ids", [])),
        "template": run.template_name,
        "shots": run.parameters.get("shots", {}).get("shown", 0),
    }
