"""A run of the form `choice`: what is settled before it starts.

Which permutations are asked, under which ID tokens, which probabilities are a tie, and whether the
endpoint gives the log-probabilities without which there is nothing to read.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

from judging.errors import UserError
from judging.llm.adaptation import Learned
from judging.llm.client import JudgeClient
from judging.llm.endpoint import Endpoint
from judging.llm.listing import LogprobSupport, probe_logprobs
from judging.llm.parsing.choice import UnusableIds, check_ids
from judging.llm.retries import RetryPolicy
from judging.llm.templating import Template
from judging.models.runs import Form, Method
from judging.runs import learned
from judging.runs.endpoints import key_of

# CalibraEval, eqs. 5 and 6. With one or two, position and contents change places together.
PERMUTATIONS = {
    1: ("X0",),
    2: ("X0", "X2"),
    3: ("X0", "X1", "X2"),
    4: ("X0", "X1", "X2", "X3"),
}
USUAL_PERMUTATIONS = 2
MOST_SHOTS = 3
HALF = Decimal("0.5")
# White space may stand before the ID, and an ID may be several tokens long.
MAX_TOKENS = 4
# Whoever starts a run waits for the answer.
PATIENCE = RetryPolicy(deadline=60.0, request=60.0, tries=2)


@dataclass(frozen=True, slots=True)
class ChoiceOptions:
    """What a person may say of a choice; None where it is left open."""

    permutations: int | None = None
    ids: str = ""
    band: Decimal | None = None
    shots: int | None = None

    @classmethod
    def of(cls, form: str, given: Mapping[str, Any]) -> Self:
        """Checked. Raises UserError for what can't be asked, or is said of another form."""
        said = {name: value for name, value in given.items() if value not in (None, "")}
        options = cls(**said)
        if said and form != Form.CHOICE:
            raise UserError(
                f"{', '.join(said)}: settings of the form choice, and the form is {form}. "
                "Nothing was started."
            )
        check_options(options)
        return options


def check_options(options: ChoiceOptions) -> None:
    if options.permutations not in (None, *PERMUTATIONS):
        raise UserError(
            f"Permutations are 1 to 4, not {options.permutations}: X0; X0 and X2; X0 to X2; or "
            "X0 to X3. Nothing was started."
        )
    if options.shots is not None and not 0 <= options.shots <= MOST_SHOTS:
        raise UserError(
            f"In-context examples: from 0 to {MOST_SHOTS}, not {options.shots}. "
            "Nothing was started."
        )
    if options.band is not None and not 0 <= options.band < HALF:
        raise UserError(
            f"The band around ½ that is a tie lies from 0 to below {HALF}, not at {options.band}. "
            "Nothing was started."
        )


def permutations_of(options: ChoiceOptions) -> tuple[str, ...]:
    return PERMUTATIONS[options.permutations or USUAL_PERMUTATIONS]


def method_of(options: ChoiceOptions, k: int | None) -> str:
    """By how many orders the verdict speaks: of one permutation one, else both."""
    if len(permutations_of(options)) > 1:
        return Method.MEC_BPC
    return Method.VANILLA if k in (None, 1) else Method.MEC


def check_method(method: str, found: str) -> None:
    """A method that was named must be the one that the permutations make."""
    both = Method.MEC_BPC
    if method == Method.PORTIA:
        raise UserError(
            "Method portia and the form choice don't go together: a choice shows responses whole. "
            "Leave the method out. Nothing was started."
        )
    if method and (method == both) != (found == both):
        asked = "both orders" if method == both else "one order"
        raise UserError(
            f"Method {method} asks {asked}, and these permutations do not. Choose 1 permutation "
            "for one order, or 2 to 4 for both, and leave the method out. Nothing was started."
        )


def worded(template: Template, options: ChoiceOptions) -> Template:
    """The template under the run's own ID tokens and band."""
    band = Fraction(options.band or 0)
    if not options.ids:
        return replace(template, band=band)
    ids = tuple(one.strip() for one in options.ids.split(","))
    if len(ids) != 2:
        raise UserError("The option IDs are two, such as A,B or Alice,Bob. Nothing was started.")
    try:
        check_ids((ids[0], ids[1]))
    except UnusableIds as error:
        raise UserError(f"{error} Nothing was started.") from None
    return replace(template, ids=(ids[0], ids[1]), band=band)


def check_logprobs(endpoint: Endpoint, model: str) -> None:
    """Ask the endpoint for one token with its log-probabilities. Raises UserError without."""
    if endpoint.is_local:
        return
    known, _ = learned.recall_for(endpoint.base_url, model)
    support, now_known = asyncio.run(probed(endpoint, model, known or Learned()))
    if not support.supported:
        raise UserError(
            f"A run of this form reads log-probabilities, and none came for {model} at "
            f"{endpoint.name} ({support.reason.rstrip('.')}). Nothing was started. Choose another "
            "endpoint, or the form relation or score, which read what the judge writes."
        )
    learned.keep_for(endpoint.base_url, model, now_known, known)


async def probed(endpoint: Endpoint, model: str, known: Learned) -> tuple[LogprobSupport, Learned]:
    """Asked anew even where they were refused before: an operator may have turned them on."""
    before = {model: replace(known, logprobs=True)}
    async with JudgeClient(endpoint, key_of(endpoint), retry=PATIENCE, learned=before) as client:
        support = await probe_logprobs(client, model)
        return support, client.learned(model)
