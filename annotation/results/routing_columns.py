"""What learned routing looks at, as columns: the run's samples, the texts' lengths, other runs."""

from collections.abc import Sequence

import numpy as np
from django.db.models.functions import Length

from annotation.results.other_runs import OtherRun
from annotation.results.samples_array import Samples
from annotation.results.sections import Data
from annotation.results.sheet import Sheet
from annotation.selecting import frame
from judging.methods.arrays import Floats
from judging.methods.routing_features import (
    Feature,
    Features,
    Judged,
    features,
    in_favour,
    judged_features,
    jury_agreement,
    smoothed_entropies,
)
from judging.models.projects import Project
from judging.models.runs import Form, Run
from judging.models.verdicts import Verdict
from judging.runs.likelihood import pair_differences

# Beyond it a probability's logit says more of rounding than of the judge.
_SUREST = 1 - 1e-6


def texts_of(project: Project, run: Run, sheet: Sheet) -> Data:
    """Lengths in characters, and what some runs and projects have: PORTIA's stage, and how much
    likelier a language model finds response 1 a token. In the order of the sheet."""
    lengths = frame(project).values_list(
        "pk", Length("response_1"), Length("response_2"), Length("question")
    )
    found = {pk: rest for pk, *rest in lengths}
    stages = dict(Verdict.objects.filter(run=run).exclude(stage="").values_list("example", "stage"))
    rows = np.array([found.get(pk, (0, 0, 0)) for pk in sheet.ids.tolist()], dtype=np.float64)
    rows = rows.reshape(-1, 3)
    arrays = {"length_1": rows[:, 0], "length_2": rows[:, 1], "question": rows[:, 2]}
    likelihood = pair_differences(project, sheet.ids).per_token
    if np.isfinite(likelihood).any():
        arrays["likelihood"] = likelihood
    return Data(arrays | _stages(sheet, run, stages))


def columns_of(
    sheet: Sheet, run: Run, samples: Samples, others: Sequence[OtherRun], texts: Data
) -> Features:
    """Standardised; BPDE smoothed but where it comes from probabilities."""
    signs = samples.signs
    bpde = sheet.bpde
    if run.form != Form.CHOICE:
        bpde = smoothed_entropies(signs, samples.valid)
    judged = Judged(
        sign=np.where(sheet.judged, sheet.judge, 0).astype(np.int8),
        bpde=bpde,
        gap=sheet.gap,
        outcomes=signs,
        valid=samples.valid,
        length_1=texts.arrays["length_1"],
        length_2=texts.arrays["length_2"],
        question=texts.arrays["question"],
    )
    columns = judged_features(judged)
    if run.form == Form.CHOICE:
        columns.append(Feature("log-probability margin", _margin(sheet.gap)))
    if "likelihood" in texts.arrays:
        columns.append(in_favour("likelihood in favour", texts.arrays["likelihood"], judged.sign))
    if "stage" in texts.arrays:
        columns.append(Feature("PORTIA's stage", texts.arrays["stage"]))
    if others:
        verdicts = [(one.judge, one.judged) for one in others]
        columns.append(jury_agreement(judged.sign, verdicts))
    return features(columns, sheet.category.tolist(), sheet.judged)


def _margin(gap: Floats) -> Floats:
    """The logit of P, from |2 P - 1|."""
    sure = np.minimum(gap, _SUREST)
    return np.asarray(np.log1p(sure) - np.log1p(-sure))


def _stages(sheet: Sheet, run: Run, stages: dict[int, str]) -> dict[str, Floats]:
    """Which of the stages settled an example, 1 for the first; nothing for runs without them."""
    if not stages:
        return {}
    number = {name: float(place) for place, name in enumerate(run.stages, start=1)}
    values = [number.get(stages.get(pk, ""), np.nan) for pk in sheet.ids.tolist()]
    return {"stage": np.array(values)}
