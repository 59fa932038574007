"""What a round's audit may certify, fixed and stored before the first audit label is given."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from annotation.selecting import Drawn
from judging.errors import UserError
from judging.methods.certificate import CertificatePlan, certificate_plan
from judging.models.runs import Run
from judging.models.verdicts import Verdict

EPSILON, ALPHA = 0.1, 0.05


# More thresholds than these would certify hardly more, and each is tested.
MOST_THRESHOLDS = 200


def check_plan(n_audit: int, epsilon: float, alpha: float, looks: tuple[int, ...]) -> None:
    """Raises UserError where the plan could never be carried out."""
    if not n_audit:
        return
    if looks and looks[-1] > n_audit:
        raise UserError(f"A look at {looks[-1]} is after the end of an audit of {n_audit}.")
    try:
        CertificatePlan(epsilon, alpha, looks or (n_audit,), ())
    except ValueError as error:
        raise UserError(f"No certificate can be planned: {error}.") from error


def plan_to_store(
    run: Run | None,
    drawn: Drawn,
    epsilon: float,
    alpha: float,
    looks: tuple[int, ...],
    scores: Mapping[int, float | None] | None = None,
) -> dict[str, Any] | None:
    """None where there is no audit. Without looks there is one, at the end of the audit.

    scores: by example, of those with a judge's label: what a round learned, in BPDE's place. They
    differ everywhere, so that the grid holds quantiles of them. The learning sample is selected.
    """
    if run is None or not drawn.audit:
        return None
    selected = {one.example_id for one in [*drawn.top, *drawn.learn]}
    verdicts = Verdict.objects.filter(run=run, label__isnull=False, bpde__isnull=False)
    rest = {pk: bpde for pk, bpde in verdicts.values_list("example", "bpde") if pk not in selected}
    values = list(rest.values())
    if scores is not None:
        values = [score for pk in rest if (score := scores.get(pk)) is not None]
    plan = certificate_plan(
        values, [True] * len(values), epsilon, alpha, looks or (len(drawn.audit),)
    )
    grid = plan.grid
    if scores is not None and len(grid) > MOST_THRESHOLDS:
        grid = tuple(
            grid[len(grid) * t // MOST_THRESHOLDS - 1] for t in range(1, MOST_THRESHOLDS + 1)
        )
    score = "bpde" if scores is None else "routing"
    return asdict(replace(plan, grid=grid)) | {"score": score, "run": run.number}
