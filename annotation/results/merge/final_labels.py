"""The final label of each example: people's if they were asked for it, the judge's otherwise.

`merge` is the only place of that rule, and `_label_of` of what people's votes come to: by the
project's `label_rule` their majority, or what a model of all votes finds (`posteriors`). `merged`
streams every example with its final label, and the exports, the demo and the lists on the terminal
read it; `merged_page` is the same for pages. The report needs arrays, so that its `Sheet` calls
`merge` itself for the examples that people were asked about. What follows from a majority, or
without one, is `judging.methods.agreement.votes.outcome`.

People's labels have two readings. For a run, they are the labels of items that a round of that run
selected: these votes enter final labels. Everywhere, they are the labels under the newest protocol
that an example has votes of: known labels, which leave the judge's label as it is.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from django.db.models import (
    Case,
    Exists,
    ExpressionWrapper,
    F,
    Field,
    FilteredRelation,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Value,
    When,
)
from django.db.models.expressions import Combinable
from numpy.typing import ArrayLike

from annotation.models import Adjudication, Intervention, Item, Repeat, Round, Selection, Vote
from annotation.results.merge.posteriors import Posterior, Posteriors, posteriors
from annotation.rounds.changes import COVERS
from judging.core.formatting import percent
from judging.dataset.models import Example, FrameMember, Label, frame_of
from judging.methods.agreement.votes import LabelSource, enters_results, outcome
from judging.methods.arrays import Codes, Floats
from judging.methods.review.cost import HumanRate, human_usd, human_usd_of_active_time
from judging.projects.models import Project
from judging.runs.models import Run, Verdict

# Rows read from the database at a time. If there are many more, Python's garbage collector goes
# through all of them again and again.
CHUNK = 500
# Examples merged at a time, each with its texts.
_EXAMPLES_AT_ONCE = 400
# Items of these selections put votes into the final labels of their run. Votes elsewhere, such as
# imported ones, are known labels.
ENTERING = (Selection.Kind.ALL, Selection.Kind.TOP, Selection.Kind.LEARN, Selection.Kind.AUDIT)


class CastVote(NamedTuple):
    annotator_id: int
    label: str
    active_seconds: float | None
    both_bad: bool = False
    unblinded: bool = False
    left_response: int | None = None
    cast_here: bool = True
    pk: int = 0


@dataclass(frozen=True, slots=True)
class HumanLabel:
    """The votes on an example, and the label that they come to, if any.

    Attributes:
        votes: The votes that count.
        source: A `LabelSource`; empty while undecided. The label of `policy:judge` is None.
        rule: Why the label is what it is, or why there is none yet, in words.
        waits: A person must still decide.
        lapsed: The round is closed, and no vote on it is left.
        selection: How the example came into the round; empty for votes that no round asked for.
        probability: With which probability it was selected.
        n_paid, usd: Votes cast for this label in any of its rounds, and what they cost.
        assumed_usd: The same at the minutes assumed.
        n_timed, seconds, timed_usd: Those of these votes that were timed, their active time, and
            what it costs.
        left_out: Votes that don't count, because the project leaves out those of people who had
            seen judge output. They are paid for all the same.
        n_cant_judge: Votes of people who couldn't judge the example. They are cast and paid
            for, and are no label.
        posterior: The probabilities of win, tie and lose by a model of all votes, if it was asked.
    """

    votes: tuple[CastVote, ...]
    label: Label | None
    source: str
    rule: str
    waits: bool = False
    lapsed: bool = False
    selection: str = ""
    probability: float | None = None
    adjudicator: str = ""
    n_paid: int = 0
    usd: Decimal = Decimal(0)
    assumed_usd: Decimal = Decimal(0)
    n_timed: int = 0
    seconds: float = 0.0
    timed_usd: Decimal = Decimal(0)
    left_out: tuple[CastVote, ...] = ()
    n_cant_judge: int = 0
    posterior: Posterior | None = None

    @property
    def n_votes(self) -> int:
        return len(self.votes)

    @property
    def counts(self) -> dict[str, int]:
        """How many of the votes say win, tie and lose."""
        labels = [vote.label for vote in self.votes]
        return {name: labels.count(name) for name in Label.values}

    @property
    def settled(self) -> bool:
        """Votes, a decision or the policy have settled it, be it in the judge's favour."""
        return bool(self.source)


_PAID = ("n_paid", "usd", "assumed_usd", "n_timed", "seconds", "timed_usd")


# What exports read of an example, and of its verdict. Making the models took half of their time.
_OF_EXAMPLE = (
    "pk", "number", "external_id", "question", "response_1", "response_2", "model_1", "model_2",
    "category", "gold_label", "reference", "conversation",
)  # fmt: skip
_OF_VERDICT = "label cs_1 cs_2 bpde rank routing_score n_valid n_asked usd".split()


@dataclass(frozen=True, slots=True)
class Merged:
    """An example with the judge's verdict, people's label, and the final label.

    Streamed examples and verdicts are tuples with the names that exports read, others are models.
    `people` holds the votes of the run's round if a round selected the example. Otherwise it holds
    the votes that people gave elsewhere, which leave the judge's label as it is.
    """

    example: Any
    verdict: Any
    people: HumanLabel | None
    label: Label | None
    source: str
    rule: str
    human_label: Label | None

    @property
    def human_usd(self) -> Decimal | None:
        """USD of the votes that were asked for this run's final label."""
        return self.people.usd if self.people and self.people.selection else None


def merge(judge: Label | None, people: HumanLabel | None) -> tuple[Label | None, str, str]:
    """Return the final label of one example, its source, and the rule that gave it, in words.

    Args:
        judge: The judge's label, if it has one.
        people: What people say, if they were asked for this run. If they weren't, or haven't
            settled the example yet, the judge's label is final; but not while a person decides.
    """
    if people is not None and people.waits:
        return None, LabelSource.NONE, people.rule
    if people is not None and people.source == LabelSource.POLICY_JUDGE:
        return judge, people.source if judge else LabelSource.NONE, people.rule
    if people is not None and people.settled:
        return people.label, people.source, people.rule
    so_far = people.rule if people is not None else ""
    if judge is not None:
        return judge, LabelSource.JUDGE, ": ".join(filter(None, ("the judge's label", so_far)))
    return None, LabelSource.NONE, so_far or "neither the judge nor people have a label"


def merged(
    project: Project, run: Run | None, frame: int | None = None, *, model: str = ""
) -> Iterator[Merged]:
    """Yield every example in import order, merged for a run, or by people alone without a run.

    Votes are those of one moment. All is streamed, a chunk of examples at a time.

    Args:
        frame: The key of the frame that the examples are in; by default the run's own.
        model: As in `human_labels`.
    """
    frame = frame_for(run, frame)
    labels = _labels_by_example(project, run, frame, model)
    place, *labels_here = next(labels, _BEHIND_ALL)
    rows = _streamed(frame_of(project, frame), run)
    last = -1, -1
    # Each chunk starts after the last example, which costs the same however far down it is.
    while chunk := list(rows.later_than(*last)[:_EXAMPLES_AT_ONCE]):
        for row in chunk:
            last = row.number, row.pk
            # Both streams are in import order. Labels of examples outside the frame are passed
            # over.
            while place < last:
                place, *labels_here = next(labels, _BEHIND_ALL)
            verdict = row if run and row.n_asked is not None else None
            yield _merge_one(row, verdict, *(labels_here if place == last else (None, None)))


def _streamed(examples: QuerySet[Example], run: Run | None) -> QuerySet[Example, Any]:
    """Read named tuples. `outcomes_read` is JSON as text, since few tables have it."""
    if run is None:
        return examples.values_list(*_OF_EXAMPLE, named=True)
    verdict = FilteredRelation("verdicts", condition=Q(verdicts__run=run))
    columns = {name: F(f"verdict__{name}") for name in _OF_VERDICT}
    columns["outcomes_read"] = as_read(F("verdict__outcomes"))
    rows = examples.annotate(verdict=verdict).annotate(**columns)
    return rows.values_list(*_OF_EXAMPLE, *columns, named=True)


def frame_for(run: Run | None, frame: int | None) -> int | None:
    """Return the key of the frame that figures are about: the one given, else the run's."""
    return frame if frame is not None or run is None else run.frame_id


def merged_page(project: Project, run: Run | None, examples: list[Example]) -> list[Merged]:
    """Return some examples merged as `merged` does, by as many queries for one as for many."""
    if not examples:
        return []
    ids = [example.pk for example in examples]
    everywhere, asked = human_labels(project, run, frame_for(run, None), example__in=ids)
    rows = Verdict.objects.filter(run=run, example__in=ids) if run else ()
    verdicts = {verdict.example_id: verdict for verdict in rows}
    return [
        _merge_one(example, *(known.get(example.pk) for known in (verdicts, everywhere, asked)))
        for example in examples
    ]


HumanLabels = dict[int, HumanLabel]


def _merge_one(
    example: Any, verdict: Any, known: HumanLabel | None, people: HumanLabel | None
) -> Merged:
    """known, people: what people say everywhere, and what they were asked for the run."""
    judge = Label(verdict.label) if verdict and verdict.label else None
    shown = people
    if people is None and known and (known.votes or known.settled):
        # Why a round of another run selected the example says nothing about this run.
        shown = replace(known, selection="", probability=None)
    human = (people and people.label) or (known.label if known else None)
    return Merged(example, verdict, shown, *merge(judge, people), human)


def human_labels(
    project: Project,
    run: Run | None,
    frame: int | None = None,
    *,
    model: str = "",
    **only: Example | Run | list[int],
) -> tuple[HumanLabels, HumanLabels]:
    """Read people's labels, by example id: everywhere, and those asked for a run.

    Both come from one reading of the votes. Without a run, both are the same.

    What a round drew at random from only a part of the frame represents nothing but itself, like
    what was selected by rank.

    Args:
        frame: The key of the frame that the labels are used for.
        model: The model whose probabilities are wanted if labels are majorities. By default none.
        only: Filters of the items, to read fewer.
    """
    everywhere: HumanLabels = {}
    asked: HumanLabels = {}
    for (_, pk), known, here in _labels_by_example(project, run, frame, model, **only):
        everywhere[pk] = known
        if here is not None:
            asked[pk] = here
    return everywhere, everywhere if run is None else asked


# The number and key of an example, what people say about it, and what they were asked for a run.
_BEHIND_ALL: tuple[Any, ...] = ((math.inf, 0), None, None)


def _labels_by_example(
    project: Project,
    run: Run | None,
    frame: int | None,
    model: str,
    **only: Example | Run | list[int],
) -> Iterator[tuple[Any, ...]]:
    """Yield what `human_labels` returns, by example in import order, in flat memory."""
    probabilities = model_of(project, model)
    # Check examples have a known answer and are no part of any result.
    items = Item.objects.filter(round__project=project, **only).exclude(selection__kind="check")
    rounds = _rounds_of(items)
    frames = {round_.frame_id for round_ in rounds.values() if _is_of(round_, run)}
    narrow = _narrower(frames, project, frame)
    alone = {"selection": str(Selection.Kind.TOP), "probability": 1.0}
    answers = _read_answers(items, rounds, project, probabilities)
    for place, group in groupby(answers, key=lambda answer: answer[0].place):
        answers_here = list(group)
        # Stable, so that answers under one protocol stay in the order of their rounds.
        known = _newest(sorted(answers_here, key=lambda answer: answer[0].round.protocol.number))
        if run is None:
            yield place, known, known
            continue
        entering = [
            (item, replace(label, **alone) if item.round.frame_id in narrow else label)
            for item, label in answers_here
            if _is_of(item.round, run) and item.selection.kind in ENTERING
        ]
        yield place, known, _asked(entering) if entering else None


def _is_of(round_: Round, run: Run | None) -> bool:
    return run is not None and round_.kind == Round.Kind.ROUTED and round_.run_id == run.pk


def model_of(project: Project, otherwise: str = "") -> Posteriors | None:
    """Return what the model of the project's rule finds; with majorities, that of another model."""
    by_model = project.label_rule != Project.LabelRule.MAJORITY
    rule = project.label_rule if by_model else otherwise
    return posteriors(project, rule) if rule else None


def _narrower(frames: set[int | None], project: Project, frame: int | None) -> set[int | None]:
    """Return the frames of rounds that lack a member of the frame that labels are used for."""
    return {
        other
        for other in frames - {None, frame}
        if frame_of(project, frame)
        .exclude(Exists(FrameMember.objects.filter(frame=other, example=OuterRef("pk"))))
        .exists()
    }


def human_labels_for_run(run: Run) -> HumanLabels:
    """Return people's labels of the examples that rounds of this run asked about, by example id."""
    return human_labels(run.project, run, run.frame_id, round__run=run)[1]


class AskedItem(NamedTuple):
    """An item with its round and selection. Lighter than the model: a report reads tens of
    thousands."""

    pk: int
    place: tuple[int, int]
    state: str
    round: Round
    selection: Selection
    probability: float | None


Answer = tuple[AskedItem, HumanLabel]


def _newest(answers: Sequence[Answer]) -> HumanLabel:
    """Return the last label of an example that is settled, else the last one that has votes.

    Votes of all rounds were paid, so that the label has the costs of all.
    """
    _, newest = answers[0]
    for _, label in answers[1:]:
        newer = label.settled or (label.votes and not newest.settled)
        paid = {name: getattr(newest, name) + getattr(label, name) for name in _PAID}
        newest = replace(label if newer else newest, **paid)
    return newest


def _asked(answers: Sequence[Answer]) -> HumanLabel:
    """Return the newest label of an example, with the strongest reason why a round selected it.

    What one round selected stays selected if the audit of another round drew it: it is no random
    example of the rest.
    """
    label = _newest(answers)
    _, reason = min(answers, key=lambda answer: _strength(answer[1]))
    if label.selection == reason.selection:
        return label
    return replace(label, selection=reason.selection, probability=reason.probability)


def _strength(label: HumanLabel) -> int:
    return ENTERING.index(Selection.Kind(label.selection))


def _rounds_of(items: QuerySet[Item]) -> dict[int, Round]:
    """Read the items' rounds, which are few, once instead of with each item."""
    ids = items.order_by().values_list("round", flat=True).distinct()
    any_aside = Intervention.objects.filter(round=OuterRef("pk"), kind=Intervention.Kind.ASIDE)
    # Most rounds have nothing put aside, and then its votes need not be read.
    with_aside = Round.objects.select_related("protocol").annotate(any_aside=Exists(any_aside))
    return with_aside.in_bulk(list(ids))


def _read_answers(
    items: QuerySet[Item], rounds: Mapping[int, Round], project: Project, model: Posteriors | None
) -> Iterator[Answer]:
    """Yield the items with their labels, by example in import order, then by round."""
    rows = Adjudication.objects.filter(item__in=items.values("pk")).order_by("pk")
    decisions = {decision.item_id: decision for decision in rows}
    aside = _read_aside(items) if any(round_.any_aside for round_ in rounds.values()) else {}
    selections = {row.pk: row for row in Selection.objects.filter(round__in=rounds)}
    covered = {pk: row for row in selections.values() for pk in row.parameters.get(COVERS, ())}
    for (pk, *asked), votes in groupby(_read_votes(items), key=itemgetter(slice(_N_OF_ITEM))):
        number, example, state, round_, selection, probability = asked
        cast = [CastVote(*vote[_N_OF_ITEM:]) for vote in votes if vote[-1]]
        chosen = selections[selection]
        if pk in covered:
            # The cut was extended over this audit item, which now represents itself alone.
            chosen, probability = covered[pk], 1.0
        item = AskedItem(pk, (number, example), state, rounds[round_], chosen, probability)
        here = model.of(example, rounds[round_].protocol_id) if model else None
        yield item, _label_of(item, cast, aside.get(pk, []), decisions.get(pk), project, here)


def _read_aside(items: QuerySet[Item]) -> dict[int, list[CastVote]]:
    """Read the votes that were put aside, by item. They have left their slots."""
    votes = Vote.every.filter(item__in=items.values("pk"), aside_at__isnull=False).order_by("pk")
    aside: dict[int, list[CastVote]] = defaultdict(list)
    for item, *vote in votes.values_list("item", "annotator", "label", "active_seconds"):
        aside[item].append(CastVote(*vote))
    return aside


_OF_ITEM = "pk example__number example state round selection probability".split()
_N_OF_ITEM = len(_OF_ITEM)


def _read_votes(items: QuerySet[Item]) -> Iterator[tuple[Any, ...]]:
    """Read the items with each of their slots, by one query and so of one moment.

    The vote of an empty slot has no key.
    """
    both_bad = When(slots__vote__answer__overall="both_bad", then=Value(1))
    # A vote that counts in several rounds is in a slot of each, and was cast in one.
    here = Case(When(slots__vote__item=F("pk"), then=Value(1)), default=Value(0))
    rows = (
        items.annotate(
            both_bad=as_read(Case(both_bad, default=Value(0), output_field=IntegerField())),
            unblinded=as_read(F("slots__vote__unblinded")),
            cast_here=as_read(here),
        )
        .order_by("example__number", "example", "round__number", "pk", "slots__index")
        .values_list(
            *_OF_ITEM,
            "slots__vote__annotator",
            "slots__vote__label",
            "slots__vote__active_seconds",
            "both_bad",
            "unblinded",
            "slots__vote__left_response",
            "cast_here",
            "slots__vote",
        )
    )
    return rows.iterator(CHUNK)


def _label_of(
    item: AskedItem,
    cast: list[CastVote],
    aside: list[CastVote],
    decision: Adjudication | None,
    project: Project,
    posterior: Posterior | None,
) -> HumanLabel:
    parts: dict[bool, list[CastVote]] = {True: [], False: []}
    saying = [vote for vote in cast if vote.label]
    leave_out, cannot = project.leave_out_unblinded, len(cast) - len(saying)
    for vote in saying:
        counts_in = enters_results(vote.label, unblinded=vote.unblinded, leave_out=leave_out)
        parts[counts_in].append(vote)
    votes, left_out = tuple(parts[True]), tuple(parts[False])
    labels = [vote.label for vote in votes]
    counts = tuple(map(labels.count, Label.values))
    not_counted = len(left_out) + cannot
    label, source, rule = _decide(item, counts, not_counted, decision)
    if posterior is not None and source in _BY_VOTES and item.state != Item.State.ADJUDICATE:
        label, source, rule = _by_model(posterior, project.label_rule, label, source, rule)
    if cannot:
        rule = "; ".join(filter(None, (rule, f"{cannot} couldn't judge")))
    if left_out:
        rule = "; ".join(filter(None, (rule, f"{len(left_out)} given unblinded left out")))
    if aside:
        rule = "; ".join(filter(None, (rule, f"{len(aside)} put aside")))
    routed = item.round.kind == Round.Kind.ROUTED
    # A vote that counts in several rounds is paid once, where it was cast.
    paid = [*(vote for vote in cast if vote.cast_here), *aside] if routed else []
    timed = [vote.active_seconds for vote in paid if vote.active_seconds is not None]
    seconds = sum(timed)
    return HumanLabel(
        votes=votes,
        label=label,
        source=source,
        rule=rule,
        waits=item.state == Item.State.ADJUDICATE and not source,
        lapsed=not cast and not source and item.round.state == Round.State.CLOSED,
        selection=item.selection.kind if routed else "",
        probability=item.probability if routed else None,
        adjudicator=decision.decider if decision else "",
        n_paid=len(paid),
        usd=sum((_vote_cost(item.round, vote) for vote in paid), Decimal(0)),
        assumed_usd=len(paid) * _assumed_usd(item.round.minutes_per_vote, item.round.wage_usd),
        n_timed=len(timed),
        seconds=seconds,
        # repr writes the shortest decimal that is this float, and not its fifty binary digits.
        timed_usd=human_usd_of_active_time(Decimal(repr(seconds)), item.round.wage_usd)
        if timed
        else Decimal(0),
        left_out=left_out,
        n_cant_judge=cannot,
        posterior=posterior if votes else None,
    )


def _decide(
    item: AskedItem, counts: tuple[int, ...], not_counted: int, decision: Adjudication | None
) -> tuple[Label | None, str, str]:
    if decision is not None:
        return Label(decision.label), LabelSource.ADJUDICATED, "decided by a person"
    settled = item.state == Item.State.COMPLETE or item.round.state == Round.State.CLOSED
    # An open item may still get votes that change its majority.
    if any(counts) and settled:
        # Where a label measures the judge, the policy can't be to take the judge's label.
        measures = item.selection.kind in Selection.RANDOM
        return _outcome_in_words(counts, item.round.no_majority, measures)
    return None, LabelSource.UNDECIDED, _why_undecided(item, counts, not_counted)


def _by_model(
    posterior: Posterior, rule: str, label: Label | None, source: str, words: str
) -> tuple[Label | None, str, str]:
    """Return the likeliest label, if the project takes labels from a model and one is likeliest."""
    best = max(posterior)
    likeliest = [name for name, p in zip(Label.values, posterior, strict=True) if best - p < EQUAL]
    # The model doesn't decide between equally likely labels, so the round's own rule applies.
    if rule == Project.LabelRule.MAJORITY or len(likeliest) > 1:
        return label, source, words
    name = _MODELS[LabelSource(rule)]
    return (
        Label(likeliest[0]),
        LabelSource(rule),
        f"{percent(best)} likely by the {name} model; {words}",
    )


def _why_undecided(item: AskedItem, counts: tuple[int, ...], not_counted: int) -> str:
    cast, asked = sum(counts) + not_counted, item.round.votes_per_item
    if item.state == Item.State.ADJUDICATE:
        if not_counted and not any(counts):
            return "no vote that counts: waits for a decision"
        if cast < asked:
            return f"{cast} of {asked} votes, and everybody else skipped it: waits for a decision"
        return f"no majority ({_joined(counts)}): waits for a decision"
    return f"{cast} of {asked} votes so far" if cast else ""


# What votes alone came to, which a model of votes may replace. A person's decision stays.
_BY_VOTES = (LabelSource.MAJORITY, LabelSource.POLICY_TIE, LabelSource.POLICY_JUDGE)
_MODELS = {LabelSource.DAWID_SKENE: "Dawid–Skene", LabelSource.HIERARCHICAL: "hierarchical"}
# Two labels whose probabilities differ by less are equally likely.
EQUAL = 1e-9
_WITHOUT_MAJORITY = {
    LabelSource.POLICY_TIE: "a tie by policy",
    LabelSource.POLICY_JUDGE: "the judge's label by policy",
    LabelSource.UNDECIDED: "waits for a decision",
}


# Thousands of items share a few counts, and so one outcome and one sentence.
@lru_cache(maxsize=1000)
def _outcome_in_words(
    counts: tuple[int, ...], policy: str, measures: bool
) -> tuple[Label | None, LabelSource, str]:
    votes = dict(zip(Label.values, counts, strict=True))
    label, source = outcome(votes, policy, measures=measures)
    if source == LabelSource.MAJORITY:
        rule = f"more than half of {sum(counts)} votes ({_joined(counts)})"
    else:
        rule = f"no majority ({_joined(counts)}): {_WITHOUT_MAJORITY[source]}"
    return Label(label) if label else None, source, rule


def _joined(counts: tuple[int, ...]) -> str:
    return "–".join(map(str, counts))


def _vote_cost(round_: Round, vote: CastVote) -> Decimal:
    """Return wage × minutes. A vote without a measured time counts with the assumed minutes."""
    if round_.cost_basis == Project.CostBasis.MEASURED and vote.active_seconds is not None:
        return human_usd_of_active_time(Decimal(repr(vote.active_seconds)), round_.wage_usd)
    return _assumed_usd(round_.minutes_per_vote, round_.wage_usd)


@lru_cache(maxsize=100)
def _assumed_usd(minutes: Decimal, wage: Decimal) -> Decimal:
    return human_usd(1, HumanRate(minutes, wage))


# Reading rows of the database as arrays, which `data` and `sections` do as well.


def as_read(number: Combinable) -> ExpressionWrapper:
    """Read a number as the driver gives it: converting each again takes longer than reading it."""
    return ExpressionWrapper(number, output_field=Field())


def places_of(ids: Codes, wanted: ArrayLike) -> Codes:
    """Return the place of each wanted id among `ids`, and -1 for one that isn't there."""
    keys = np.asarray(wanted, dtype=np.intp)
    if not len(ids):
        return np.full(len(keys), -1, dtype=np.intp)
    order = np.argsort(ids)
    near = order[np.searchsorted(ids, keys, sorter=order).clip(max=len(ids) - 1)]
    return np.where(ids[near] == keys, near, -1)


def spread(ids: Codes, examples: ArrayLike, values: ArrayLike) -> Floats:
    """Return values of some examples in the order of `ids`; NaN for examples without one."""
    spread_values, places = np.full(len(ids), np.nan), places_of(ids, examples)
    spread_values[places[places >= 0]] = np.asarray(values, dtype=np.float64)[places >= 0]
    return spread_values


def repeated_answers(project: Project) -> list[Repeat]:
    """Return the pairs that people answered again, as far as both answers count, in their order.

    Attention checks and votes that were put aside are left out, as from all agreement.
    """
    repeats = Repeat.objects.filter(round__project=project, submitted_at__isnull=False)
    repeats = repeats.filter(vote__aside_at=None, vote__example__is_check=False)
    repeats = repeats.exclude(label="").exclude(first_label="")
    if project.leave_out_unblinded:
        repeats = repeats.filter(vote__unblinded=False)
    return list(repeats.select_related("annotator").order_by("annotator__number", "pk"))
