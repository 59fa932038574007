"""The form `choice`: one ID token, whose probability is read.

Before a run starts: which permutations are asked, under which ID tokens, which probabilities are a
tie, and whether the endpoint gives log-probabilities at all. Afterwards the table of P(t1).

In-context examples are solved pairs of the project. They are drawn at random, by the run's seed,
from examples whose known label is win or lose, both equally often if the number is even, each about
another question. One more is drawn than shown: no example is shown its own answer or one to its
own question, so all examples can be asked about and N stays all of them.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from judging.core.errors import UserError
from judging.dataset.models import Example, Label
from judging.llm.client.adaptation import EndpointCapabilities
from judging.llm.client.judge_client import JudgeClient, LogprobSupport, probe_logprobs
from judging.llm.client.limits import RetryPolicy
from judging.llm.endpoint import Endpoint
from judging.llm.parsing.choice import UnusableIds, check_ids
from judging.llm.prompts.templates import PromptVariant, Shot, Template
from judging.projects.models import Project
from judging.runs import endpoints
from judging.runs.endpoints import key_of
from judging.runs.models import Form, Method, Parse, Run

# CalibraEval, eqs. 5 and 6. With one or two, position and contents change places together.
PERMUTATIONS = {1: ("X0",), 2: ("X0", "X2"), 3: ("X0", "X1", "X2"), 4: ("X0", "X1", "X2", "X3")}
DEFAULT_PERMUTATIONS = 2
MOST_SHOTS = 3
HALF = Decimal("0.5")
# White space may stand before the ID, and an ID may be several tokens long.
MAX_TOKENS = 4
# A person waits for the answer while starting a run.
PATIENCE = RetryPolicy(deadline=60.0, request=60.0, tries=2)


@dataclass(frozen=True, slots=True)
class ChoiceOptions:
    """The settings of a choice; None is the default."""

    permutations: int | None = None
    ids: str = ""
    band: Decimal | None = None
    shots: int | None = None

    @classmethod
    def of(cls, form: str, settings: Mapping[str, Any]) -> Self:
        """Return checked settings. Raises UserError if they are impossible or for another form."""
        chosen = {name: value for name, value in settings.items() if value not in (None, "")}
        options = cls(**chosen)
        if chosen and form != Form.CHOICE:
            raise UserError(
                f"{', '.join(chosen)}: settings of the form choice, and the form is {form}. "
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
    return PERMUTATIONS[options.permutations or DEFAULT_PERMUTATIONS]


def method_of(options: ChoiceOptions, k: int | None) -> str:
    """Return the method by the orders that the verdict rests on: one permutation is one order."""
    if len(permutations_of(options)) > 1:
        return Method.MEC_BPC
    return Method.VANILLA if k in (None, 1) else Method.MEC


def check_method(method: str, by_permutations: str) -> None:
    """Raise UserError if a method was named that the permutations don't make."""
    both = Method.MEC_BPC
    if method == Method.PORTIA:
        raise UserError(
            "Method portia and the form choice don't go together: a choice shows responses whole. "
            "Leave the method out. Nothing was started."
        )
    if method and (method == both) != (by_permutations == both):
        asked = "both orders" if method == both else "one order"
        raise UserError(
            f"Method {method} asks {asked}, and these permutations do not. Choose 1 permutation "
            "for one order, or 2 to 4 for both, and leave the method out. Nothing was started."
        )


def worded(template: Template, options: ChoiceOptions) -> Template:
    """Return the template with the run's own ID tokens and band."""
    band = Fraction(options.band or 0)
    if not options.ids:
        return replace(template, band=band)
    ids = tuple(token.strip() for token in options.ids.split(","))
    if len(ids) != 2:
        raise UserError("The option IDs are two, such as A,B or Alice,Bob. Nothing was started.")
    try:
        check_ids((ids[0], ids[1]))
    except UnusableIds as error:
        raise UserError(f"{error} Nothing was started.") from None
    return replace(template, ids=(ids[0], ids[1]), band=band)


def check_logprobs(endpoint: Endpoint, model: str) -> None:
    """Ask the endpoint for one token. Raises UserError if no log-probabilities come with it."""
    # The local judge always gives log-probabilities.
    if endpoint.is_local:
        return
    known, _ = endpoints.recall_for(endpoint.base_url, model)
    support, now_known = asyncio.run(probed(endpoint, model, known or EndpointCapabilities()))
    if not support.supported:
        raise UserError(
            f"A run of this form reads log-probabilities, and none came for {model} at "
            f"{endpoint.name} ({support.reason.rstrip('.')}). Nothing was started. Choose another "
            "endpoint, or the form relation or score, which read what the judge writes."
        )
    endpoints.keep_for(endpoint.base_url, model, now_known, known)


async def probed(
    endpoint: Endpoint, model: str, known: EndpointCapabilities
) -> tuple[LogprobSupport, EndpointCapabilities]:
    """Ask even if they were refused before: the operator may have turned them on."""
    before = {model: replace(known, logprobs=True)}
    async with JudgeClient(endpoint, key_of(endpoint), retry=PATIENCE, learned=before) as client:
        support = await probe_logprobs(client, model)
        return support, client.learned(model)


Table = NDArray[np.float64]


def token_table(run: Run, ids: NDArray[np.intp]) -> tuple[Table, Table]:
    """Return (N, P) the mean P(t1) over the k samples and the mean mass of both tokens; NaN: none.

    ids: the examples, in the order of the rows. P counts the run's permutations.
    """
    place = {int(pk): row for row, pk in enumerate(ids.tolist())}
    columns = {part: column for column, part in enumerate(run.parts)}
    parses = Parse.objects.that_count(run).filter(
        sample__call__part__in=columns, p_first__isnull=False
    )
    rows = parses.values_list("sample__call__example", "sample__call__part", "p_first", "mass")
    samples: defaultdict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for example, part, p_first, mass in rows.iterator(chunk_size=5000):
        if example in place:
            probability = PromptVariant.parse(part).token_probability(p_first)
            cell = place[example], columns[part]
            samples[cell].append((probability, np.nan if mass is None else mass))
    table = np.full((len(ids), len(columns)), np.nan)
    masses = table.copy()
    for cell, values in samples.items():
        table[cell], masses[cell] = np.mean(values, axis=0)
    return table, masses


OTHER = {Label.WIN.value: Label.LOSE.value, Label.LOSE.value: Label.WIN.value}


def draw_shots(project: Project, shots: int, seed: int) -> dict[str, Any]:
    """Return what a run keeps: how many are shown, and the examples to take them from."""
    if not shots:
        return {"shown": 0, "drawn": []}
    rows = project.examples.judged().filter(gold_label__in=OTHER).order_by("number", "pk")
    solved = list(rows.values_list("pk", "question", "gold_label"))
    # At random by the run's seed, since the first examples of a file are often alike.
    random.Random(seed).shuffle(solved)
    # One more than is shown, since an example is never shown before its own question.
    chosen = one_after_the_other(solved, shots + 1)
    if len(chosen) <= shots:
        raise UserError(
            f"{shots} in-context examples need {shots + 1} questions with a known label, win or "
            f"lose, and project {project.slug} has {len(chosen)}. Nothing was started."
        )
    return {"shown": shots, "drawn": [[pk, 1 if label == Label.WIN else 2] for pk, label in chosen]}


def one_after_the_other(solved: Sequence[tuple[int, str, str]], n: int) -> list[tuple[int, str]]:
    """Return n solved examples, win and lose in turn while both last, no question twice."""
    waiting = {label: [row for row in solved if row[2] == label] for label in OTHER}
    chosen: list[tuple[int, str]] = []
    asked: set[str] = set()
    turn = solved[0][2] if solved else Label.WIN.value
    while len(chosen) < n and any(waiting.values()):
        queue = waiting[turn] or waiting[OTHER[turn]]
        pk, question, label = queue.pop(0)
        if question not in asked:
            asked.add(question)
            chosen.append((pk, label))
            turn = OTHER[label]
    return chosen


@dataclass(frozen=True, slots=True)
class Shots:
    """In-context examples. `drawn`: each example and which of its responses is better."""

    shown: int
    drawn: tuple[tuple[Example, int], ...]

    @classmethod
    def of(cls, run: Run) -> Self:
        kept = run.parameters.get("shots", {"shown": 0, "drawn": []})
        examples = Example.objects.in_bulk([pk for pk, _ in kept["drawn"]])
        if gone := [pk for pk, _ in kept["drawn"] if pk not in examples]:
            raise UserError(
                f"{len(gone)} of the in-context examples of run {run.name} are no longer in the "
                "project. Answers given with and without them are never mixed: start a new run."
            )
        return cls(kept["shown"], tuple((examples[pk], better) for pk, better in kept["drawn"]))

    def before(self, example: Example) -> tuple[Shot, ...]:
        """Return what is shown before this example: never itself or its own question."""
        others = [
            Shot(
                shot.question,
                shot.response_1,
                shot.response_2,
                better,
                shot.reference,
                shot.conversation,
            )
            for shot, better in self.drawn
            if shot.pk != example.pk and shot.question != example.question
        ]
        return tuple(others[: self.shown])
