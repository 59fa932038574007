"""What calibration needs beyond the run: settings, and answers about content-free inputs.

CC and DC divide by what the judge says about content-free inputs. These are calls of the run,
under its own template, IDs and in-context examples, and are paid and recorded like all others.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from judging.core.errors import UserError
from judging.core.images import without_images
from judging.core.models import merge
from judging.llm.prompts.templates import PromptVariant
from judging.methods.calibration.methods import INPUTS, NAMES, NOTHING, USUAL, random_inputs
from judging.runs import lifecycle
from judging.runs.engine.working import Report, work_on
from judging.runs.models import Call, Form, Method, Parse, Run, subjects_of

NOTHING_PART = str(PromptVariant("X0", input="cc"))
ASKED_BY = {"cc": "cc:", "cc_softmax": "cc:", "dc": "dc:"}
WHOLE = 100
# DC's words are drawn from at most this many examples.
MOST_TEXTS = 1000


def check(run: Run, methods: Sequence[str], share: Decimal) -> None:
    """Raise UserError if the run can't be calibrated so."""
    if run.form != Form.CHOICE:
        raise UserError(
            f"Run {run.name} asked for the form {run.form}, which gives no probabilities. "
            "Calibrate a run of the form choice: manage.py judge PROJECT --form choice."
        )
    if unknown := set(methods) - set(NAMES):
        raise UserError(
            f"There is no calibration {', '.join(sorted(unknown))}. Nothing was changed. "
            f"Choose from: {', '.join(NAMES)}, all."
        )
    if not 0 < share <= WHOLE:
        raise UserError(f"The estimation share is above 0 and at most 100 percent, not {share}.")


def settings_of(run: Run) -> dict[str, Any]:
    """Return which calibrations the pages show, and the share of data that each is fitted on."""
    usual = {"methods": list(USUAL), "estimation_share": str(WHOLE)}
    return usual | run.parameters.get("calibration", {})


def keep_settings(run: Run, methods: Sequence[str], share: Decimal) -> None:
    """Keep the calibrations to show; always with the plain mean, which the others have to beat."""
    chosen = [name for name in NAMES if name in {"uncalibrated", "mean", *methods}]
    keep(run, calibration={"methods": chosen, "estimation_share": str(share)})


def keep(run: Run, **parameters: Any) -> None:
    merge(run, "parameters", lambda kept: {**kept, **parameters})


def random_part(n: int) -> str:
    """Return the part of DC's input n."""
    return str(PromptVariant("X0", input=f"dc:{n}"))


def wanted_inputs(run: Run, methods: Sequence[str]) -> dict[str, list[str]]:
    """Return by part the texts that these methods ask about."""
    wanted: dict[str, list[str]] = {}
    kinds = {ASKED_BY[name] for name in methods if name in ASKED_BY}
    if "cc:" in kinds:
        wanted[NOTHING_PART] = [NOTHING.question, NOTHING.response_1, NOTHING.response_2]
    if "dc:" in kinds:
        examples = subjects_of(run).order_by("number", "pk")
        columns = examples.values_list("question", "response_1", "response_2")
        rows = [[without_images(text)[0] for text in row] for row in columns[:MOST_TEXTS]]
        questions = [row[0] for row in rows]
        responses = [text for row in rows for text in row[1:]]
        try:
            # The run's seed, so that a repeated calibration asks about the same inputs and reuses
            # the answers.
            drawn = random_inputs(questions, responses, np.random.default_rng(run.seed))
        except ValueError:
            raise UserError("The examples hold no words to draw DC's inputs from.") from None
        for n, texts in enumerate(drawn):
            wanted[random_part(n)] = [texts.question, texts.response_1, texts.response_2]
    return wanted


def ask_about_nothing(
    run: Run,
    methods: Sequence[str],
    *,
    report: Report = lambda pump: None,
    say: Callable[[str], None] = lambda line: None,
) -> int:
    """Ask what these methods need and the run lacks, and return how many answers it has then.

    Raises UserError if the run is not done. A recorded run can't be asked.
    """
    wanted = wanted_inputs(run, methods)
    if not wanted or run.method == Method.IMPORTED:
        return len(answers(run))
    if run.state != Run.State.DONE:
        raise UserError(
            f"Run {run.name} is {run.get_state_display()}. Its calibration can ask the judge once "
            "the run is done; nothing was sent. Leave cc and dc out, or come back then."
        )
    # Inputs kept earlier win: a recorded answer belongs to its own input.
    merge(
        run,
        "parameters",
        lambda kept: {**kept, "content_free": wanted | kept.get("content_free", {})},
    )
    if lacking(run):
        lifecycle.resume(run, background=False)
        run.refresh_from_db()
        work_on(run, report=report, say=say, at_keyboard=True)
        run.refresh_from_db()
    return len(answers(run))


def lacking(run: Run) -> bool:
    asked = run.calls.filter(state=Call.State.DONE, example=None, point_item=None)
    # Inputs have no example, so their calls are told apart by their part alone.
    return len(set(asked.values_list("part", flat=True))) < len(run.parameters["content_free"])


def answers(run: Run) -> dict[str, float]:
    """Return P(t1) by part."""
    return {
        part: PromptVariant.parse(part).token_probability(p_first)
        for _, part, _, p_first in Parse.objects.rows_that_count(run, None, "p_first")
        if p_first is not None
    }


def by_kind(answered: dict[str, float]) -> tuple[list[float], list[float]]:
    """Return CC's answer, and DC's in the order of their inputs."""
    nothing = [p for part, p in answered.items() if part == NOTHING_PART]
    parts = [random_part(n) for n in range(INPUTS)]
    return nothing, [answered[part] for part in parts if part in answered]
