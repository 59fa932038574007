"""A project and a run as arrays, one row per example, on which all figures are computed.

It also says why people's labels are missing, for the figures that need them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from django.db.models import Case, F, IntegerField, Value, When
from django.db.models.functions import MD5, Coalesce, Length
from numpy.typing import NDArray

from annotation.models import Annotator, Selection
from annotation.results.merge.final_labels import (
    CHUNK,
    CastVote,
    HumanLabel,
    as_read,
    frame_for,
    human_labels,
    merge,
    places_of,
)
from annotation.votes.agreement import SIGN
from judging.core.formatting import count
from judging.dataset.models import Label, frame_of, question_codes
from judging.methods.agreement.accuracy import Comparison, Design
from judging.methods.agreement.skills import CastVotes, Hierarchical, hierarchical
from judging.methods.agreement.votes import LabelSource, VoteCounts
from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.intervals.estimates import Undefined
from judging.methods.review.curve import routing_level
from judging.projects.models import Project
from judging.runs.models import Run, Verdict

NO_LABELS = "no human labels yet; open a round or import votes"
POLICY = "the judge's label by policy, which can't measure the judge"


def why_unsettled(asked: Mapping[int, HumanLabel], elsewhere: int, n: int) -> str:
    """asked: what those say who were asked for a run, by example; elsewhere: how many of the n
    examples have a label that nobody asked for."""
    if not asked:
        return _some(elsewhere, n) if elsewhere else NO_LABELS
    without = [say for say in asked.values() if say.label is None]
    lapsed = sum(say.lapsed for say in without)
    judges = sum(say.source == LabelSource.POLICY_JUDGE for say in without)
    waiting = len(without) - lapsed - judges
    reasons = (
        (waiting, f"still {_verb(waiting, 'wait')} for a label"),
        (lapsed, f"{_has(lapsed)} no vote, and the round is closed"),
        (judges, f"without a majority {_verb(judges, 'keep')} {POLICY}"),
    )
    clauses = [f"{count(k)} of {count(len(asked))} items {words}" for k, words in reasons if k]
    return "; ".join(clauses)


def _some(elsewhere: int, n: int) -> str:
    if elsewhere == n:
        return (
            "some examples have votes, and the others have an imported label; import votes for "
            "all, or open a round with an audit"
        )
    return (
        f"only {count(elsewhere)} of {count(n)} examples have a human label, and these may not be "
        "typical; import labels for all, or open a round with an audit"
    )


def _has(k: int) -> str:
    return "has" if k == 1 else "have"


def _verb(k: int, word: str) -> str:
    return f"{word}s" if k == 1 else word


@dataclass(frozen=True)
class Ballots:
    """votes: (N, annotators) of 1, 0, -1, read where present. left: which response stood left,
    0 where that is not known. names: pseudonyms, as in exports."""

    names: tuple[str, ...]
    votes: Signs
    present: Booleans
    left: NDArray[np.int8]

    @property
    def counts(self) -> VoteCounts:
        return VoteCounts.from_votes(self.votes, self.present)

    @cached_property
    def rows(self) -> Codes:
        """The places of the examples with votes."""
        return np.flatnonzero(self.present.any(axis=1))

    @cached_property
    def cast(self) -> CastVotes | Undefined:
        """The votes, one by one, on `rows`."""
        return CastVotes.from_table(self.votes[self.rows], self.present[self.rows])

    @cached_property
    def pooled(self) -> Hierarchical | Undefined:
        """What the hierarchical model makes of them."""
        return self.cast if isinstance(self.cast, Undefined) else hierarchical(self.cast)


def ballots_of(votes: Sequence[Sequence[CastVote]]) -> Ballots:
    cast = [vote for row in votes for vote in row]
    people = sorted({vote.annotator_id for vote in cast})
    column = {annotator: place for place, annotator in enumerate(people)}
    rows = np.repeat(np.arange(len(votes)), [len(row) for row in votes])
    cells = rows, np.array([column[vote.annotator_id] for vote in cast], dtype=np.intp)
    shape = (len(votes), len(people))
    table = np.zeros(shape, np.int8)
    present, left = np.zeros(shape, bool), np.zeros(shape, np.int8)
    table[cells] = [SIGN[vote.label] for vote in cast]
    present[cells] = True
    left[cells] = [vote.left_response or 0 for vote in cast]
    annotators = Annotator.objects.in_bulk(people)
    names = tuple(annotators[pk].pseudonym for pk in people)
    return Ballots(names, table, present, left)


# Larger than any rank: what was not ranked comes last.
_LAST = 2**62
_NO_LABEL = 2
_STATES = Verdict.State.values
_PENDING, _UNJUDGED, _INCONSISTENT = (
    _STATES.index(state)
    for state in (Verdict.State.PENDING, Verdict.State.UNJUDGED, Verdict.State.INCONSISTENT)
)
_EXAMPLE = np.dtype(
    [
        ("id", "i8"),
        ("category", "O"),
        ("sign", "i1"),
        ("model_1", "O"),
        ("model_2", "O"),
        ("question", "S32"),
        ("length", "i8"),
    ]
)
_VERDICT = np.dtype(
    [
        ("example", "i8"),
        ("state", "i1"),
        ("sign", "i1"),
        ("bpde", "f8"),
        ("gap", "f8"),
        ("score", "f8"),
        ("rank", "i8"),
    ]
)


@dataclass(frozen=True)
class ExampleRows:
    """As in `Sheet`; gold, golden: the label that an example came with, and whether it has one."""

    ids: Codes
    category: NDArray[np.str_]
    gold: Signs
    golden: Booleans
    models: tuple[str, ...]
    model_1: Codes
    model_2: Codes
    question: Codes
    length: NDArray[np.int64]


@dataclass(frozen=True)
class VerdictRows:
    """The judge's part of a `Sheet`, which says what they mean; in its order of the examples."""

    judge: Signs
    judged: Booleans
    level: Floats
    bpde: Floats
    gap: Floats
    ranking: Codes


def example_rows(project: Project, frame: int | None) -> ExampleRows:
    """One query, and no text: equal questions are known by their hash.

    A conversation has the length of its text form, without the messages that both responses share.
    """
    rows = (
        frame_of(project, frame)
        .annotate(
            question_md5=as_read(MD5(F("question"))),
            length=as_read(Length("response_1") - Length("response_2")),
            sign=as_read(label_sign("gold_label")),
        )
        .values_list("pk", "category", "sign", "model_1", "model_2", "question_md5", "length")
    )
    table = np.fromiter(_sharing(rows.iterator(chunk_size=CHUNK)), dtype=_EXAMPLE)
    golden = table["sign"] != _NO_LABEL
    models, (model_1, model_2) = _codes(table["model_1"], table["model_2"])
    return ExampleRows(
        ids=table["id"].astype(np.intp),
        category=table["category"].astype(np.str_),
        gold=np.where(golden, table["sign"], 0).astype(np.int8),
        golden=golden,
        models=models,
        model_1=model_1,
        model_2=model_2,
        question=question_codes(table["question"]),
        # A copy, because a column of a structured array keeps all others in memory.
        length=table["length"].copy(),
    )


def _sharing(rows: Iterator[tuple]) -> Iterator[tuple]:
    """Give all rows with the same category or models the same texts, which need memory once."""
    known: dict[str, str] = {}
    for pk, category, sign, *models, question, length in rows:
        kept = [known.setdefault(text, text) for text in (category, *models)]
        yield pk, kept[0], sign, *kept[1:], question, length


def text_lengths(project: Project, ids: Codes) -> NDArray[np.int64]:
    """(N, 3) characters of response 1, response 2 and the question. One query, and no text.

    Of a conversation, a response's length is that of its own turns in their text form.
    """
    columns = Length("response_1"), Length("response_2"), Length("question")
    rows = frame_of(project).values_list("pk", *columns).iterator(chunk_size=CHUNK)
    table = np.fromiter(chain.from_iterable(rows), dtype=np.int64).reshape(-1, 1 + len(columns))
    places = places_of(ids, table[:, 0])
    lengths = np.zeros((len(ids), len(columns)), dtype=np.int64)
    lengths[places[places >= 0]] = table[places >= 0, 1:]
    return lengths


def verdict_rows(run: Run | None, ids: Codes) -> VerdictRows:
    """Read the verdicts by one query. An example without a verdict is pending."""
    verdicts = np.fromiter(_verdicts(run) if run else (), dtype=_VERDICT)
    places = places_of(ids, verdicts["example"])
    rows = np.zeros(len(ids), dtype=_VERDICT)
    rows["state"], rows["sign"], rows["rank"] = _PENDING, _NO_LABEL, _LAST
    for name in ("bpde", "gap", "score"):
        rows[name] = np.nan
    rows[places[places >= 0]] = verdicts[places >= 0]
    judged = rows["sign"] != _NO_LABEL
    # Stable, so that examples without a rank keep their order, and the same sheet is the same
    # bytes.
    by_rank = np.argsort(rows["rank"], kind="stable")
    return VerdictRows(
        judge=np.where(judged, rows["sign"], 0).astype(np.int8),
        judged=judged,
        level=_levels(rows),
        bpde=rows["bpde"].copy(),
        gap=rows["gap"].copy(),
        ranking=by_rank[rows["rank"][by_rank] < _LAST],
    )


def _verdicts(run: Run) -> Iterator[tuple]:
    states = [When(state=name, then=Value(code)) for code, name in enumerate(_STATES)]
    return (
        Verdict.objects.filter(run=run)
        .order_by()
        .annotate(
            code=as_read(Case(*states, output_field=IntegerField())),
            sign=as_read(label_sign()),
            place=as_read(Coalesce("rank", Value(_LAST))),
        )
        .values_list("example", "code", "sign", "bpde", "gap", "routing_score", "place")
        .iterator(chunk_size=CHUNK)
    )


def label_sign(column: str = "label") -> Case:
    """A label as a number."""
    labels = [When(**{column: name}, then=Value(sign)) for name, sign in SIGN.items()]
    return Case(*labels, default=Value(_NO_LABEL), output_field=IntegerField())


def signs(labels: Sequence[str | None]) -> tuple[Signs, Booleans]:
    """1, 0, -1 for win, tie, lose, and where there is a label."""
    there = np.array([label is not None for label in labels], dtype=bool)
    numbers = [0 if label is None else SIGN[label] for label in labels]
    return np.array(numbers, dtype=np.int8), there


def _levels(rows: NDArray[np.void]) -> Floats:
    """Return what examples are ranked by: the learned score if there is one, else BPDE."""
    score = np.where(np.isnan(rows["score"]), rows["bpde"], rows["score"])
    state = rows["state"]
    return routing_level(score, state == _UNJUDGED, state == _INCONSISTENT)


def _codes(*columns: NDArray[np.object_]) -> tuple[tuple[str, ...], list[Codes]]:
    names: dict[str, int] = {}
    coded = [
        np.array([names.setdefault(name, len(names)) for name in column.tolist()], dtype=np.intp)
        for column in columns
    ]
    return tuple(names), coded


LABELS = {1: Label.WIN, 0: Label.TIE, -1: Label.LOSE}
_BY_RANK = (Selection.Kind.TOP.value, Selection.Kind.ALL.value)


@dataclass(frozen=True)
class KnownLabels:
    """The examples whose right label is known. rows: their places in the sheet; the rest as in
    `Comparison`."""

    rows: Codes
    weight: Floats
    stratum: Codes

    @property
    def plain(self) -> bool:
        """Whether all stand for themselves alone."""
        return not len(self.rows) or bool(np.ptp(self.weight) == 0)


@dataclass(frozen=True)
class Sheet(VerdictRows):
    """judge, human, final: 1 win, 0 tie, -1 lose, meaningless where judged, labelled, has_final
    are False. ranking: indices, the first to be reviewed first. level: what they are ranked by.
    length: characters of response 1 less those of response 2.

    basis: `votes` where people voted on every example, `gold` where every example came with its
    known label, else `round`: only what the rounds of this run asked about is known.
    selected, audited: which examples the rounds of this run asked people about, and why.
    answer, answered: what people said there, which is not always what is known.
    unsettled: why labels of people are lacking; empty where none is.
    people: who voted, also on what this run asked nobody about.
    asked: what those say who were asked for this run, by id.
    """

    ids: Codes
    category: NDArray[np.str_]
    question: Codes
    models: tuple[str, ...]
    model_1: Codes
    model_2: Codes
    length: NDArray[np.int64]
    human: Signs
    labelled: Booleans
    final: Signs
    has_final: Booleans
    selected: Booleans
    audited: Booleans
    answer: Signs
    answered: Booleans
    basis: str
    unsettled: str
    people: tuple[HumanLabel | None, ...]
    asked: dict[int, HumanLabel]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def everyone(self) -> bool:
        return self.basis != "round"

    @property
    def knows_ties(self) -> bool:
        """Whether the labels could be ties: votes can be, by every protocol's scale, and known
        labels that came with the examples if any of them is one."""
        return self.basis != "gold" or bool((self.human[self.labelled] == 0).any())

    @property
    def reviewed(self) -> Booleans:
        """Mark the examples that people labelled because a round of this run selected them."""
        return self.selected & self.answered

    @property
    def audited_alone(self) -> Booleans:
        """Mark the examples that people labelled only because an audit drew them."""
        return self.audited & ~self.selected & self.answered

    @cached_property
    def ballots(self) -> Ballots:
        return ballots_of([say.votes if say else () for say in self.people])

    @cached_property
    def known(self) -> KnownLabels | Undefined:
        """Which labels are known and what each weighs, by why people saw the example."""
        if self.everyone:
            rows = np.flatnonzero(self.labelled)
            if not len(rows):
                return Undefined("people have settled no example yet")
            return KnownLabels(rows, np.ones(len(rows)), np.zeros(len(rows), np.intp))
        asked = self.selected | self.audited
        # Before all labels are there, those that came first are no random part of what was asked.
        if not asked.any() or (asked & ~self.labelled).any():
            return Undefined(self.unsettled)
        weights = Design(self.selected, self.audited).weights()
        if isinstance(weights, Undefined):
            return weights
        rows = np.flatnonzero(weights)
        return KnownLabels(rows, weights[rows], (~self.selected[rows]).astype(np.intp))

    def comparison(self, labels: Signs, there: Booleans) -> Comparison | Undefined:
        """Compare these labels with people's."""
        known = self.known
        if isinstance(known, Undefined):
            return known
        rows = known.rows
        compared = (labels[rows], there[rows], self.human[rows])
        by_design = (known.weight, known.stratum, self.question[rows])
        return Comparison(*compared, *by_design, knows_ties=self.knows_ties)


def sheet_of(project: Project, run: Run | None, frame: int | None = None) -> Sheet:
    """Read everything once; a constant number of queries, and no text.

    Without a run, the labels are those of people alone, from all their votes.

    Args:
        frame: The key of the frame that the figures are about; by default the run's own.
    """
    frame = frame_for(run, frame)
    examples = example_rows(project, frame)
    ids = examples.ids
    verdicts = verdict_rows(run, ids)
    everywhere, asked = human_labels(project, run, frame)
    # Votes outside of the frame are about examples that no figure here counts.
    if frame is not None:
        inside = set(ids.tolist())
        everywhere = {pk: say for pk, say in everywhere.items() if pk in inside}
        # `_known` tells by identity that there is no run.
        asked = {pk: say for pk, say in asked.items() if pk in inside} if run else everywhere
    basis, human, labelled, people = _known(examples, everywhere, asked)
    says = _Says(ids, asked)
    answer, answered = says.labels()
    final, has_final = _finals(verdicts, says)
    selected, audited = _why(says.kinds())
    # The labels that examples came with enter the sheet by `_known` alone.
    columns = {name: value for name, value in vars(examples).items() if "gold" not in name}
    return Sheet(
        **columns,
        **vars(verdicts),
        human=human,
        labelled=labelled,
        final=final,
        has_final=has_final,
        selected=selected,
        audited=audited,
        answer=answer,
        answered=answered,
        basis=basis,
        unsettled=why_unsettled(asked, _elsewhere(examples, everywhere), len(ids)),
        people=people,
        asked=asked,
    )


class _Says:
    """What those asked say, and where in the sheet: a fraction of the examples."""

    def __init__(self, ids: Codes, asked: dict[int, HumanLabel]) -> None:
        self.n = len(ids)
        places = places_of(ids, list(asked))
        placed = zip(places.tolist(), asked.values(), strict=True)
        self.by_place = {place: say for place, say in placed if place >= 0}
        self.places = np.array(list(self.by_place), dtype=np.intp)

    def labels(self) -> tuple[Signs, Booleans]:
        return self.spread([say.label for say in self.by_place.values()])

    def kinds(self) -> NDArray[np.str_]:
        kinds = np.full(self.n, "", dtype="<U8")
        kinds[self.places] = [say.selection for say in self.by_place.values()]
        return kinds

    def spread(self, labels: Sequence[str | None]) -> tuple[Signs, Booleans]:
        values, there = np.zeros(self.n, np.int8), np.zeros(self.n, bool)
        values[self.places], there[self.places] = signs(labels)
        return values, there


def _finals(verdicts: VerdictRows, says: _Says) -> tuple[Signs, Booleans]:
    """Return the final labels by `merge`, which keeps the judge's label if people weren't asked."""
    final, has_final = verdicts.judge.copy(), verdicts.judged.copy()
    judge = [
        LABELS[sign] if there else None
        for sign, there in zip(final[says.places], has_final[says.places], strict=True)
    ]
    merged = [merge(*pair)[0] for pair in zip(judge, says.by_place.values(), strict=True)]
    final[says.places], has_final[says.places] = signs(merged)
    return final, has_final


def _why(kinds: NDArray[np.str_]) -> tuple[Booleans, Booleans]:
    """Tell which examples were selected, and which were drawn at random from the others.

    A learning sample belongs to the selection that it led to (SCIENCE: learned routing). If
    its round was closed before it led to one, it is a random sample of all examples.
    """
    by_rank = np.isin(kinds, _BY_RANK)
    learn, audit = kinds == Selection.Kind.LEARN, kinds == Selection.Kind.AUDIT
    if by_rank.any():
        return by_rank | learn, audit
    return by_rank, audit | learn


def _elsewhere(examples: ExampleRows, everywhere: dict[int, HumanLabel]) -> int:
    """Examples with a label that no round of this run asked for: votes, or one they came with."""
    voted = {pk for pk, say in everywhere.items() if say.votes}
    return len(voted | set(examples.ids[examples.golden].tolist()))


def _known(
    examples: ExampleRows, everywhere: dict[int, HumanLabel], asked: dict[int, HumanLabel]
) -> tuple[str, Signs, Booleans, tuple[HumanLabel | None, ...]]:
    """Return what labels are compared with: all votes, else known labels, else votes in rounds."""
    ids = examples.ids.tolist()
    # All or none: examples that have votes by chance are perhaps not typical of the others.
    voted = all(pk in everywhere and everywhere[pk].votes for pk in ids)
    # Without a run, `human_labels` gives the same labels twice.
    if ids and (voted or asked is everywhere):
        people = tuple(everywhere.get(pk) for pk in ids)
        return "votes", *signs([say.label if say else None for say in people]), people
    # Known labels count if every example has one, for the same reason.
    if ids and examples.golden.all():
        gold = examples.gold, examples.golden
        return "gold", *gold, tuple(everywhere.get(pk) for pk in ids)
    says = [asked.get(pk) for pk in ids]
    # Votes from elsewhere give no label here, but tell how people agree.
    people = tuple(asked.get(pk, everywhere.get(pk)) for pk in ids)
    return "round", *signs([say.label if say else None for say in says]), people


MOST_APART = 5


@dataclass(frozen=True)
class Apart:
    """An example on which people and the judge disagree: signs of both labels."""

    example: int
    judge: int
    human: int


@dataclass(frozen=True)
class Disagreements:
    """n: of the `labelled` examples, those on which people and the judge disagree.

    first: those among them of which the judge was surest.
    """

    n: int
    labelled: int
    first: tuple[Apart, ...]


def disagreements(sheet: Sheet) -> Disagreements:
    """Compare the judge's labels with people's wherever both gave one."""
    known = sheet.known
    if isinstance(known, Undefined):
        return Disagreements(0, 0, ())
    rows = known.rows[sheet.judged[known.rows]]
    apart = rows[sheet.judge[rows] != sheet.human[rows]]
    # BPDE is smallest where the judge is surest. One that is not defined comes last.
    surest = apart[np.argsort(sheet.bpde[apart], kind="stable")][:MOST_APART]
    first = tuple(
        Apart(int(sheet.ids[row]), int(sheet.judge[row]), int(sheet.human[row])) for row in surest
    )
    return Disagreements(len(apart), len(rows), first)
