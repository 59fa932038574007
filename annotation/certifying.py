"""What a round's audit may certify, fixed and stored before the first audit label is given."""

from dataclasses import asdict
from typing import Any

from annotation.selecting import Drawn
from judging.errors import UserError
from judging.methods.certificate import certificate_plan
from judging.models import Run, Verdict

EPSILON, ALPHA = 0.1, 0.05


def plan_to_store(
    run: Run | None, drawn: Drawn, epsilon: float, alpha: float, looks: tuple[int, ...]
) -> dict[str, Any] | None:
    """None where there is no audit. Without looks there is one, at the end of the audit.

    Raises UserError where the plan could never be carried out.
    """
    if run is None or not drawn.audit:
        return None
    looks = looks or (len(drawn.audit),)
    if looks[-1] > len(drawn.audit):
        raise UserError(
            f"A look at {looks[-1]} is after the end of an audit of {len(drawn.audit)}."
        )
    selected = {one.example_id for one in drawn.top}
    verdicts = Verdict.objects.filter(run=run, label__isnull=False, bpde__isnull=False)
    rest = [
        bpde for example, bpde in verdicts.values_list("example", "bpde") if example not in selected
    ]
    try:
        plan = certificate_plan(rest, [True] * len(rest), epsilon, alpha, looks)
    except ValueError as error:
        raise UserError(f"No certificate can be planned: {error}.") from error
    return asdict(plan) | {"score": "bpde", "run": run.number}
