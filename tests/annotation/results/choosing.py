"""Choice runs whose probabilities are computed, not asked: a judge of known biases."""

import math
from typing import Any

from django.utils import timezone

from judging.dataset.models import Example
from judging.llm.prompts.templates import PromptVariant, template
from judging.projects.models import Project
from judging.runs.models import Call, Form, Method, Parse, Run, Sample
from judging.runs.templates import output_of
from judging.runs.verdicts.rebuild import rebuild_verdicts
from tests.factories import make_examples, make_run


def make_graded_project(project: Project, gaps: list[float]) -> list[Example]:
    """Examples whose response 1 is better by these logits, and labelled so."""
    examples = make_examples(project, len(gaps))
    for example, gap in zip(examples, gaps, strict=True):
        example.gold_label = "win" if gap > 0 else "lose"
    Example.objects.bulk_update(examples, ["gold_label"])
    return examples


def make_choice_run(
    project: Project,
    examples: list[Example],
    gaps: list[float],
    *,
    permutations: tuple[str, ...] = ("X0", "X1", "X2", "X3"),
    position: float = 1.2,
    token: float = 0.8,
    **fields: Any,
) -> Run:
    """Each permutation once; the logit of the first shown is +-gap + position +- token."""
    defaults = {
        "form": Form.CHOICE,
        "method": Method.MEC_BPC,
        "k": 1,
        "model": "loopback-judge",
        "template_name": "calibraeval-default",
        "parameters": {
            "output": output_of(template("calibraeval-default")),
            "permutations": list(permutations),
            "shots": {"shown": 0, "drawn": []},
        },
    }
    run = make_run(project, **defaults | fields)
    pairs = [
        (example, part, p_first(gap, part, position, token))
        for example, gap in zip(examples, gaps, strict=True)
        for part in permutations
    ]
    store(run, pairs)
    rebuild_verdicts(run)
    run.refresh_from_db()
    return run


def store(run: Run, pairs: list[tuple[Example, str, float]]) -> None:
    """A call with one sample for each example, part, and probability of the first shown."""
    now = timezone.now()
    calls = Call.objects.bulk_create(
        Call(run=run, example=e, part=part, slots=[0], state="done", claimed_at=now)
        for e, part, _ in pairs
    )
    samples = Sample.objects.bulk_create(
        Sample(call=call, index=0, slot=0, raw_text="A") for call in calls
    )
    Parse.objects.bulk_create(
        Parse(
            sample=sample,
            version=1,
            status="valid",
            p_first=p,
            mass=0.9,
            outcome="win" if (p > 0.5) != PromptVariant.parse(part).swapped else "lose",
        )
        for sample, (_, part, p) in zip(samples, pairs, strict=True)
    )


def p_first(gap: float, part: str, position: float, token: float) -> float:
    logit = -gap if PromptVariant.parse(part).swapped else gap
    logit += position + (token if PromptVariant.parse(part).first_bears_first_token else -token)
    return 1 / (1 + math.exp(-logit))
