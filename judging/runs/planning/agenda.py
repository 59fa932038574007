"""What a run asks at this moment, and the request for each question.

Most runs ask everything. PORTIA asks one stage at a time, in both orders. An adaptive run asks one
sample of each order per round until its label is clear: a random pilot is asked in full,
and on it the rules are calibrated by which the others may stop. These rules are about the label
that the judge would give after all its samples, not about the truth.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from itertools import chain
from os.path import commonprefix
from typing import Any, Self

import numpy as np

from judging.core.errors import UserError
from judging.core.images import SCHEME, hashes_in
from judging.core.models import merge
from judging.dataset.images import data_url
from judging.dataset.models import Example, PointItem
from judging.llm.client.judge_client import TOP_LOGPROBS
from judging.llm.client.messages import CacheMarks, JudgeRequest, Message
from judging.llm.prompts.templates import (
    IN_JSON,
    ORDERS,
    UNSPLIT,
    PromptVariant,
    Template,
    render,
    render_parts,
    render_point,
    stage_parts,
)
from judging.methods.agreement.fewer_samples import (
    StoppingRule,
    agreement_with_full_run,
    calibrated_rules,
    label_is_settled,
    may_stop,
)
from judging.methods.calibration.probabilities import PERMUTATIONS
from judging.methods.intervals.estimates import Figure, Undefined
from judging.methods.portia.stages import Settled, Stage, StageResult
from judging.methods.verdicts.verdicts import Label, verdict
from judging.runs.forms.choice import Shots
from judging.runs.forms.point_shots import PointShots
from judging.runs.forms.portia import (
    ExampleSplits,
    PortiaSettings,
    aligned,
    begun_stages,
    label_of,
    stage_due,
)
from judging.runs.models import (
    BY_LOGPROBS,
    SCORED,
    Form,
    Method,
    Run,
    Subject,
    shown_texts,
    subjects_of,
)
from judging.runs.samples import (
    Agenda,
    Ask,
    Everything,
    ExampleSamples,
    History,
    Pair,
    RecordedSample,
    Wanted,
    last_attempts,
    read_histories,
    recorded,
    samples_of,
)
from judging.runs.templates import SolvedPairs, template_of

# A fifth of the examples, within bounds: fewer than 59 can't show 95 % even if all agree.
FEWEST_PILOT, MOST_PILOT, PILOT_SHARE = 60, 400, 5
LIKERT_REACH = Fraction(6)
# Recorded scores come without their scale; FairEval's goes from 1 to 10.
FAIREVAL_REACH = Fraction(9)


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Decides when an example of this run needs no further sample."""

    k: int
    form: str
    orders: tuple[str, ...]
    reach: Fraction
    confidence: float
    pilot: frozenset[int]
    rules: tuple[StoppingRule, ...] = ()

    def rounds_wanted(self, example: ExampleSamples) -> int:
        """Return how many samples of each order the example needs, given those it has."""
        if example.example_id in self.pilot:
            return self.k
        orders = [
            {sample.slot: sample.pair(self.form) for sample in example.of(part)}
            for part in self.orders
        ]
        for rounds in range(1, self.k):
            # Rules apply to whole rounds, so a round that is not complete is asked first.
            if any(rounds - 1 not in order for order in orders):
                return rounds
            if self.is_clear([[order[slot] for slot in range(rounds)] for order in orders]):
                return rounds
        return self.k

    def is_clear(self, orders: Sequence[Sequence[Pair | None]]) -> bool:
        """Return True if the label can't change after these rounds, or is known well enough."""
        rounds = len(orders[0])
        differences = [[Fraction(p[0]) - Fraction(p[1]) for p in order if p] for order in orders]
        if label_is_settled(differences, [self.k - rounds] * len(orders), self.reach):
            return True
        # Exact fractions: a lead that equals the rule's must not depend on rounding.
        lead = sum(chain.from_iterable(differences), Fraction(0))
        return all(differences) and may_stop(self.rules, rounds, lead)


def adaptive_of(run: Run) -> Adaptive | None:
    """Return the run's stopping rules; None if it asks everything."""
    kept = run.parameters.get("adaptive")
    if kept is None:
        return None
    rules = tuple(StoppingRule(**rule) for rule in kept.get("rules") or ())
    return described(run, kept["confidence"], kept.get("pilot", ()), rules)


def described(
    run: Run, confidence: float, pilot: Sequence[int], rules: tuple[StoppingRule, ...] = ()
) -> Adaptive:
    return Adaptive(run.k, run.form, run.orders, reach(run), confidence, frozenset(pilot), rules)


def reach(run: Run) -> Fraction:
    """Return the largest difference that one sample can make."""
    if run.rule is not None:
        return Fraction(1)
    if run.form in SCORED and run.method != Method.IMPORTED:
        scale = template_of(run).scale
        return Fraction(scale.high) - Fraction(scale.low)
    if run.form == Form.SCORE:
        return FAIREVAL_REACH
    return LIKERT_REACH if run.form == Form.LIKERT else Fraction(1)


@dataclass(frozen=True, slots=True)
class AdaptiveAgenda(Agenda):
    """Ask one more round for each example that is not clear yet, and the pilot in full at once.

    `most`: until the pilot is complete the others get one round, however often the run is stopped.
    """

    run: Run
    adaptive: Adaptive
    most: int
    open_ended: bool = True

    @property
    def waits(self) -> bool:
        """Return True if the rules are calibrated once all answers of this pass are back."""
        return self.most < self.run.k

    def wanted(self, examples: Sequence[Example]) -> Wanted:
        return {
            example.example_id: dict.fromkeys(self.run.parts, self.rounds(example))
            for example in recorded(self.run, [example.pk for example in examples])
        }

    def rounds(self, example: ExampleSamples) -> int:
        rounds = self.adaptive.rounds_wanted(example)
        return rounds if example.example_id in self.adaptive.pilot else min(self.most, rounds)


def adaptive_agenda(run: Run) -> AdaptiveAgenda:
    """Return the agenda of the next pass. Draws the pilot, later calibrates on it, each once."""
    adaptive = adaptive_of(run)
    if not adaptive.pilot:
        keep(run, pilot=draw_pilot(run))
    elif "rules" not in run.parameters["adaptive"]:
        calibrate(run, adaptive)
    return AdaptiveAgenda(
        run, adaptive_of(run), run.k if "rules" in run.parameters["adaptive"] else 1
    )


def keep(run: Run, **values: Any) -> None:
    merge(run, "parameters", lambda kept: {**kept, "adaptive": kept["adaptive"] | values})


def draw_pilot(run: Run) -> list[int]:
    ids = list(subjects_of(run).order_by("number", "pk").values_list("pk", flat=True))
    # At random, since the first examples of a file are often of one kind.
    return sorted(random.Random(run.seed).sample(ids, pilot_size(len(ids))))


def pilot_size(examples: int) -> int:
    return min(examples, MOST_PILOT, max(FEWEST_PILOT, examples // PILOT_SHARE))


def calibrate(run: Run, adaptive: Adaptive) -> None:
    """Calibrate the rules on the pilot, once it has been asked in full."""
    pilot = list(recorded(run, sorted(adaptive.pilot)))
    # Rules from a part of the pilot would depend on which answers happened to come first.
    if any(len(e.of(part)) < run.k for e in pilot for part in run.orders):
        return
    rules = rules_from(adaptive, pilot)
    if isinstance(rules, Undefined):
        keep(run, rules=[], why=rules.reason)
    else:
        keep(run, rules=[asdict(rule) for rule in rules])


def rules_from(
    adaptive: Adaptive, pilot: Sequence[ExampleSamples]
) -> list[StoppingRule] | Undefined:
    """Calibrate exactly: the differences are brought to a common denominator first."""
    pairs = [[e.pairs(part, adaptive.form) for part in adaptive.orders] for e in pilot]
    valid = np.array([[[p is not None for p in order] for order in e] for e in pairs])
    exact = [[[difference(p) for p in order] for order in e] for e in pairs]
    # Means of criteria are thirds and the like, and whole numbers compare exactly.
    scale = math.lcm(*(d.denominator for d in chain.from_iterable(chain.from_iterable(exact))))
    whole = np.array([[[int(d * scale) for d in order] for order in e] for e in exact])
    rules = calibrated_rules(whole, valid, adaptive.confidence)
    if isinstance(rules, Undefined):
        return rules
    return [replace(rule, lead=rule.lead / scale) for rule in rules]


def difference(pair: Pair | None) -> Fraction:
    return Fraction(0) if pair is None else Fraction(pair[0]) - Fraction(pair[1])


SIGNS = {Label.WIN: 1, Label.TIE: 0, Label.LOSE: -1, None: 2}


@dataclass(frozen=True, slots=True)
class Replay:
    """What an adaptive run would have saved, and how often it would give the full run's label.

    Labels are compared outside the pilot. The pilot is asked in full, so its labels agree anyway.
    """

    samples: int
    asked: int
    n_pilot: int
    rules: tuple[StoppingRule, ...]
    agreement: Figure

    @property
    def saved(self) -> float:
        """Share of the full run's samples that were not needed."""
        return 1 - self.asked / self.samples if self.samples else 0.0

    def __str__(self) -> str:
        share = "not known"
        if not isinstance(self.agreement, Undefined):
            low, high = self.agreement.low or 0.0, self.agreement.high or 0.0
            share = f"{self.agreement.value:.1%} (95 % interval {low:.1%} to {high:.1%})"
        return (
            f"Adaptive: {self.asked} of {self.samples} samples, {self.saved:.1%} saved. Labels as "
            f"in the full run, outside the pilot of {self.n_pilot}: {share}. "
            f"{len(self.rules)} calibrated rules."
        )


def replay(
    adaptive: Adaptive, examples: Sequence[ExampleSamples], calibrated: bool = False
) -> Replay:
    """Stop on fully asked examples as the run would have. `calibrated`: use its own rules."""
    if not calibrated:
        pilot = [e for e in examples if e.example_id in adaptive.pilot]
        rules = rules_from(adaptive, pilot) if pilot else Undefined("there is no pilot")
        adaptive = replace(adaptive, rules=() if isinstance(rules, Undefined) else tuple(rules))
    rounds = {e.example_id: adaptive.rounds_wanted(e) for e in examples}
    others = [e for e in examples if e.example_id not in adaptive.pilot]
    stopped = np.array([sign(adaptive, e, rounds[e.example_id]) for e in others])
    full = np.array([sign(adaptive, e, adaptive.k) for e in others])
    orders = len(adaptive.orders)
    return Replay(
        samples=len(examples) * orders * adaptive.k,
        asked=sum(rounds.values()) * orders,
        n_pilot=len(examples) - len(others),
        rules=adaptive.rules,
        agreement=agreement_with_full_run(stopped, full) if others else Undefined("all are pilot"),
    )


def sign(adaptive: Adaptive, example: ExampleSamples, rounds: int) -> int:
    original, swapped = (example.pairs(part, adaptive.form) for part in adaptive.orders)
    return SIGNS[verdict(original[:rounds], swapped[:rounds], k=rounds).label]


def replay_run(run: Run, confidence: float) -> Replay:
    """Replay a stored full run as if it had been adaptive. No call is made."""
    in_rounds = run.method in (Method.MEC_BPC, Method.IMPORTED) and not run.stages
    if not in_rounds or len(run.orders) < 2 or run.k < 2:
        raise UserError(
            f"Run {run.name} can't be replayed: it doesn't have several rounds in both orders."
        )
    if adaptive_of(run) is not None:
        raise UserError(f"Run {run.name} was adaptive itself: only a full run can be replayed.")
    full = [
        example
        for example in samples_of(run)
        # An example with missing samples has no full label to compare with.
        if all(len(example.of(part)) >= run.k for part in run.orders)
    ]
    size = pilot_size(len(full))
    pilot = random.Random(run.seed).sample([e.example_id for e in full], size)
    return replay(described(run, confidence, pilot), full)


Histories = dict[str, History]


@dataclass(frozen=True, slots=True)
class PortiaAgenda(Agenda):
    """Ask both orders of the stage that is due.

    No example waits for another: when both orders of a stage have come back, the next stage is
    asked at once. A sample that is to be asked again leaves its stage unfinished.
    """

    run: Run
    settings: PortiaSettings
    open_ended: bool = True

    def wanted(self, examples: Sequence[Example]) -> Wanted:
        return {
            pk: dict.fromkeys(stage_parts(due), self.run.k) if due else {}
            for pk, (due, _) in self.due(examples).items()
        }

    def follow_up(self, answered: Sequence[Ask]) -> list[Ask]:
        """Return the next stage of the examples whose stage has just been finished.

        The stage of the answers themselves has been asked already.
        """
        examples = {ask.subject.pk: ask.subject for ask in answered}
        asked = {(ask.subject.pk, PromptVariant.parse(ask.part).stage) for ask in answered}
        return [
            Ask(examples[pk], part, tuple(slots), attempt)
            for pk, (due, histories) in self.due(list(examples.values())).items()
            # The stage that came back may still be open because a sample of it has to be asked
            # again.
            if due and (pk, due) not in asked
            for part in stage_parts(due)
            for attempt, slots in sorted(histories.get(part, History()).left(self.run.k).items())
        ]

    def due(self, examples: Sequence[Example]) -> dict[int, tuple[Stage | None, Histories]]:
        """Return by example the stage to ask or to finish, and the histories of its parts."""
        ids = [example.pk for example in examples]
        histories: dict[int, Histories] = {pk: {} for pk in ids}
        for (pk, part), history in read_histories(self.run, ids).items():
            histories[pk][part] = history
        samples = last_attempts(self.run, ids)
        return {
            example.pk: (
                self.stage_of(example, histories[example.pk], samples[example.pk]),
                histories[example.pk],
            )
            for example in examples
        }

    def stage_of(
        self, example: Example, histories: Histories, samples: Sequence[RecordedSample]
    ) -> Stage | None:
        begun = begun_stages(histories)
        results = {
            stage: StageResult(*(self.label(samples, part) for part in stage_parts(stage)))
            for stage in begun
            if all(self.is_finished(histories.get(part)) for part in stage_parts(stage))
        }
        due = stage_due(self.settings, results, begun, ExampleSplits(example, self.settings))
        return None if isinstance(due, Settled) else due

    def is_finished(self, history: History | None) -> bool:
        # A failed sample is settled too, so a stage whose replies can't be read ends as well.
        return history is not None and len(history.settled) >= self.run.k

    def label(self, samples: Sequence[RecordedSample], part: str) -> object:
        return label_of([s.pair(self.run.form) for s in samples if s.part == part])


def agenda_of(run: Run) -> Agenda:
    """Return what the next pass over the examples asks."""
    if "adaptive" in run.parameters:
        return adaptive_agenda(run)
    if portia := PortiaSettings.of(run):
        return PortiaAgenda(run, portia)
    return Everything(run.parts, run.k)


def with_images(request: JudgeRequest) -> JudgeRequest:
    """Return a request that can be sent: with the images that its messages name, if any."""
    if not any(SCHEME in message.content for message in request.messages):
        return request
    hashes = hashes_in(*(message.content for message in request.messages))
    urls = {sha256: url for sha256 in hashes if (url := data_url(sha256))}
    return replace(request, images=urls) if urls else request


@dataclass(frozen=True, slots=True)
class Questioner:
    """What all requests of a run have in common."""

    template: Template
    model: str
    temperature: float
    max_tokens: int
    schema: dict[str, object] | None
    shots: Shots
    criteria: str = ""
    portia: PortiaSettings | None = None
    items: Mapping[str, str] = field(default_factory=dict)
    point_shots: PointShots = field(default_factory=lambda: PointShots({}))
    marked: bool = False
    k: int = 1
    solved: SolvedPairs = field(default_factory=SolvedPairs)

    @classmethod
    def of(cls, run: Run) -> Self:
        template = template_of(run)
        return cls(
            template,
            run.model,
            float(run.temperature),
            run.max_tokens,
            run.schema,
            Shots.of(run),
            run.parameters.get("criteria", ""),
            PortiaSettings.of(run),
            dict(run.parameters.get("items", ())),
            PointShots.of(run) if run.form == Form.POINTWISE else PointShots({}),
            bool(run.parameters.get("cache_marks")),
            run.k,
            SolvedPairs.of(template),
        )

    def of_ask(self, ask: Ask) -> JudgeRequest:
        """Return the request for the samples of an ask."""
        return self.request(ask.subject, ask.part, len(ask.slots), ask.slots[0])

    def request(self, subject: Subject, part: str, n: int, slot: int = 0) -> JudgeRequest:
        """Return the request for n samples, of which `slot` is the first."""
        reads_logprobs = self.template.form.value in BY_LOGPROBS
        messages = tuple(self.messages(subject, part, slot))
        return JudgeRequest(
            messages,
            self.model,
            n=n,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            schema=self.schema,
            described=self.template.reply in IN_JSON,
            top_logprobs=TOP_LOGPROBS if reads_logprobs else None,
            marks=self._marks(subject, part, slot, messages) if self.marked else None,
        )

    def _marks(
        self, subject: Subject, part: str, slot: int, messages: Sequence[Message]
    ) -> CacheMarks:
        """Say up to where the prompts of all orders are the same as these messages."""
        variant = PromptVariant.parse(part)
        orders = PERMUTATIONS if variant.permutation else ORDERS if variant.arrangement else ()
        others = [str(replace(variant, arrangement=order)) for order in orders]
        prompts = [messages, *(self.messages(subject, other, slot) for other in others)]
        for place, shown in enumerate(zip(*prompts, strict=True)):
            same = commonprefix([message.content for message in shown])  # noqa: RUF071
            if same != messages[place].content:
                # Up to the end of a line, so that no word is cut in two.
                same = same[: same.rfind("\n") + 1]
                break
        return CacheMarks(place, len(same), whole=self.k > 1 and not self.solved.simulated)

    def quoted(self, subject: Subject, part: str) -> tuple[str, ...]:
        """Return the texts that the judge is shown: a verdict quoted from them is not its own."""
        texts = shown_texts(subject)
        stage = PromptVariant.parse(part).stage
        if stage == UNSPLIT:
            return texts
        shown = aligned(subject, stage, self.portia)
        # Another version of the splitter may find nothing to split although parts were shown.
        return (*texts, *shown.parts_1, *shown.parts_2) if shown else texts

    def _check_images(self, example: Example) -> None:
        """Refuse to split responses whose images came after the run was started."""
        if hashes_in(example.response_1, example.response_2):
            raise UserError(
                f"PORTIA splits responses, and those of example {example.external_id} hold images. "
                "Nothing more was sent. Undo the import that added it and resume the run, or start "
                "a new run with another method."
            )

    def _check_reference(self, example: Example) -> None:
        """Refuse an example that came without a reference answer after the run was started."""
        if "reference" in self.template.slots and not example.reference:
            raise UserError(
                f"Template {self.template.name} shows the reference answer, and example "
                f"{example.external_id} has none. Nothing more was sent. Undo the import that "
                "added it and resume the run, or start a new run with another template."
            )

    def messages(self, example: Subject, part: str, slot: int = 0) -> list[Message]:
        """Return the prompt: one response alone, or both, whole or by PORTIA's aligned parts."""
        variant = PromptVariant.parse(part)
        if isinstance(example, PointItem):
            criterion = variant.criterion
            return render_point(
                self.template,
                example.input,
                example.output,
                criteria=self.items[criterion],
                shots=self.point_shots.before(example, criterion),
            )
        if isinstance(example, Example):
            self._check_reference(example)
        filled = {"reference": example.reference, "criteria": self.criteria}
        filled["taught"] = self.solved.before(example, part, slot)
        if variant.stage != UNSPLIT:
            self._check_images(example)
            alignment = aligned(example, variant.stage, self.portia)
            if alignment is None:
                raise UserError(
                    f"The responses of {example.external_id} can no longer be split as this run "
                    f"began to: it was started under {self.portia.splitter}. Nothing more was "
                    "sent. Start a new run."
                )
            texts = example.question, alignment.parts_1, alignment.parts_2
            return render_parts(self.template, *texts, part, **filled)
        return render(
            self.template, example.question, example.response_1, example.response_2, part,
            shots=self.shots.before(example), conversation=example.conversation, **filled,
        )  # fmt: skip
