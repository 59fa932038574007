"""The examples of a project that match a filter, in an order, a page at a time.

The data browser shows these pages, and the page of an example takes its neighbours from the same
filter. A page starts after an example (or before one) and never counts rows up to it, so that the
last page costs as much as the first. Filters on people's labels are decided by `merge`, which owns
that rule: SQL only narrows down what `merge` has to look at. Both a search in texts and a filter on
people's labels look at a limited number of examples per page, and then say where to go on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any

from django.db.models import Exists, F, FilteredRelation, OuterRef, Q, QuerySet
from django.db.models.functions import Left

from annotation.models import Adjudication, Item, Round, Vote
from annotation.results.merge.final_labels import Merged, merged_page
from annotation.votes.agreement import criterion_answers
from judging.core.caching import cached, kept_a_while
from judging.core.errors import UserError
from judging.core.formatting import count
from judging.dataset.models import Example, import_states
from judging.dataset.subsets import condition_of
from judging.methods.agreement.votes import LabelSource
from judging.projects.models import Project
from judging.runs.models import Run, Verdict
from judging.runs.verdicts.judge_figures import state_of

PAGE = 50
EXCERPT = 300
# For how many examples one page reads texts and names of models to find those that match.
SEARCHED_AT_ONCE = 5_000
# How many examples one page merges at most to find those that match, and how many at a time.
MERGED_AT_MOST = 500
_MERGED_AT_ONCE = 125
SORTS = {
    "number": "number",
    "id": "external_id",
    "bpde": "verdict__bpde",
    "rank": "verdict__rank",
    "gap": "verdict__gap",
}
_OF_THE_JUDGE = frozenset({"bpde", "rank", "gap"})


class People(StrEnum):
    """What people say about an example, as a filter."""

    ANY = ""
    DIFFERS = "differs"
    UNDECIDED = "undecided"
    REVIEWED = "reviewed"
    UNREVIEWED = "unreviewed"


@dataclass(frozen=True)
class Filter:
    """Which examples are shown, and in which order.

    Attributes:
        run: The run whose verdicts are shown. None for people's labels alone, or texts alone.
        with_people: Votes and final labels may be shown.
        state: A state of the verdict, or `conflict` if the two orders disagree.
        criterion: Votes that the label rests on contradict each other on this criterion.
        sort: A key of `SORTS`, with `-` in front to turn it round.
    """

    project: Project
    run: Run | None = None
    with_people: bool = False
    text: str = ""
    category: str = ""
    tag: str = ""
    model: str = ""
    label: str = ""
    state: str = ""
    people: People = People.ANY
    criterion: str = ""
    sort: str = ""

    @property
    def is_about_votes(self) -> bool:
        """True if votes have to be merged to know what matches."""
        return bool(self.people or self.criterion)

    @property
    def column(self) -> str:
        name = self.sort.removeprefix("-")
        return SORTS["number" if self.run is None and name in _OF_THE_JUDGE else name]

    @property
    def descending(self) -> bool:
        return self.sort.startswith("-")

    @property
    def is_searched(self) -> bool:
        """True if the examples themselves have to be read, and not only their verdicts."""
        return bool(self.text or self.model)

    @property
    def is_counted(self) -> bool:
        """True if counting what matches is about as cheap as finding it."""
        return not self.is_searched and not self.is_about_votes


@dataclass(frozen=True)
class Browsed:
    """One page of what matches.

    Attributes:
        rows: The examples, merged with the judge's and people's labels.
        first, last: Where the page begins and ends: previous and next pages start there.
        go_on: If the page stopped before it was full, the last example that was looked at.
    """

    rows: tuple[Merged, ...] = ()
    has_before: bool = False
    has_after: bool = False
    go_on: int | None = None
    total: int | None = None
    first: int | None = field(default=None)
    last: int | None = field(default=None)


def browse(asked: Filter, *, after: int | None = None, before: int | None = None) -> Browsed:
    """Return the page after the example with the key `after`, or before the one of `before`.

    An example that is gone or of another project starts from the first page.
    """
    backwards = before is not None
    start = _place(asked, before if backwards else after)
    # An example that is gone gives no place, and the first page is always read forwards.
    backwards = backwards and start is not None
    # One row more than a page says whether another page follows, without a count.
    matches, go_on = _collect(asked, start, PAGE + 1, backwards=backwards)
    rows, more = matches[:PAGE], len(matches) > PAGE
    # Backwards, the rows come nearest first, and a page shows them in the order of the list.
    if backwards:
        rows = rows[::-1]
    # A filter on votes has merged its rows already. Otherwise only the page that is shown is
    # merged.
    if asked.with_people and not asked.is_about_votes:
        rows = merged_page(asked.project, asked.run, [row.example for row in rows])
    total = _count(asked) if asked.is_counted else None
    return Browsed(
        rows=tuple(rows),
        has_before=(more or go_on is not None) if backwards else start is not None,
        has_after=backwards or more,
        go_on=go_on,
        total=total,
        first=rows[0].example.pk if rows else None,
        last=rows[-1].example.pk if rows else None,
    )


# The number of more examples is kept until what it is counted from changes.
MANY = 10_000


def _count(asked: Filter) -> int:
    """Count what matches, without counting a large project for each page of it."""
    matching, run = _matching(asked).order_by(), asked.run
    # A count that stops behind the limit costs the same in a project of any size.
    n = matching[: MANY + 1].count()
    if n <= MANY:
        return n
    # Tags change without an import, so that a count that was kept could be wrong.
    if asked.tag:
        return matching.count()
    conditions = (asked.category, asked.label, asked.state, run and run.pk)
    name = f"matching-{sha256(repr(conditions).encode()).hexdigest()}"
    imports = import_states(asked.project)
    if run is None or run.state == Run.State.DONE:
        state = (imports, run and state_of(run))
        return int(cached(name, asked.project, state, matching.count))
    # While a run judges, its verdicts change all the time: the count may then be a moment old.
    return int(kept_a_while(name, asked.project, imports, matching.count, is_large=True))


def keys_of(asked: Filter) -> list[int]:
    """Return the keys of all that match. Raises UserError if that takes reading too many votes."""
    candidates = _matching(asked).filter(_holds(asked)).order_by("number", "pk")
    keys = list(candidates.values_list("pk", flat=True))
    if not asked.is_about_votes:
        return keys
    if len(keys) > SEARCHED_AT_ONCE:
        raise UserError(
            f"For this filter, FairJudge would have to merge the votes on {count(len(keys))} "
            "examples, which is too many at once. Narrow it down, for example by category or "
            "verdict. Nothing was changed."
        )
    matching = []
    for first in range(0, len(keys), _MERGED_AT_ONCE):
        rows = merged_page(asked.project, asked.run, _read(keys[first : first + _MERGED_AT_ONCE]))
        matching += [row.example.pk for row in _that_match(rows, asked)]
    return matching


def neighbours(asked: Filter, example: Example) -> tuple[Example | None, Example | None]:
    """Return the examples before and after this one within the filter."""
    place = _place(asked, example.pk)
    if place is None:
        return None, None
    pages = (_collect(asked, place, 1, backwards=backwards)[0] for backwards in (True, False))
    before, after = ([row.example for row in rows] for rows in pages)
    return (before[0] if before else None), (after[0] if after else None)


@dataclass(frozen=True)
class _Place:
    """The place of an example in the order. `value` is None if it has none in this column."""

    pk: int
    number: int
    value: object


def _place(asked: Filter, pk: int | None) -> _Place | None:
    if pk is None:
        return None
    rows = _with_verdicts(Example.objects.filter(project=asked.project, pk=pk), asked)
    row = rows.values_list("pk", "number", asked.column).first()
    return _Place(*row) if row else None


def _collect(
    asked: Filter, start: _Place | None, wanted: int, *, backwards: bool
) -> tuple[list[Merged], int | None]:
    """Return up to `wanted` rows from a place on, and where to go on if it stopped early."""
    if not asked.is_about_votes:
        keys, edge = _next(asked, start, wanted, backwards=backwards)
        return [_unmerged(example) for example in _read(keys)], edge
    keys, edge = _next(asked, start, MERGED_AT_MOST + 1, backwards=backwards)
    rows: list[Merged] = []
    # Merging is what costs. In small groups, a page that is full early merges few examples.
    for first in range(0, len(keys[:MERGED_AT_MOST]), _MERGED_AT_ONCE):
        part = keys[first : min(first + _MERGED_AT_ONCE, MERGED_AT_MOST)]
        rows += _that_match(merged_page(asked.project, asked.run, _read(part)), asked)
        if len(rows) >= wanted:
            return rows[:wanted], None
    return rows, keys[MERGED_AT_MOST - 1] if len(keys) > MERGED_AT_MOST else edge


def _unmerged(example: Example) -> Merged:
    return Merged(example, None, None, None, LabelSource.NONE, "", None)


def _next(
    asked: Filter, place: _Place | None, n: int, *, backwards: bool
) -> tuple[list[int], int | None]:
    """Return the keys of the next n candidates, and the last one searched if it stopped early."""
    wanted = SEARCHED_AT_ONCE + 1 if asked.is_searched else n
    part: list[int] = []
    for candidates in _stretches(asked, place, backwards=backwards):
        if len(part) < wanted:
            part += candidates.values_list("pk", flat=True)[: wanted - len(part)]
    if not asked.is_searched:
        return part, None
    # Texts are matched among these keys only. Over the whole table, a rare word would have every
    # text of a large project read for one page.
    searched = Example.objects.filter(pk__in=part[:SEARCHED_AT_ONCE])
    matching = set(searched.filter(_holds(asked)).values_list("pk", flat=True))
    kept = [pk for pk in part[:SEARCHED_AT_ONCE] if pk in matching]
    stopped = len(kept) < n and len(part) > SEARCHED_AT_ONCE
    return kept[:n], part[SEARCHED_AT_ONCE - 1] if stopped else None


def _read(keys: Sequence[int]) -> list[Example]:
    """Read what a row shows, in this order: not the texts, which may be long."""
    texts = ("question", "response_1", "response_2", "reference", "conversation")
    rows = Example.objects.defer(*texts).annotate(excerpt=Left("question", EXCERPT))
    by_key = rows.in_bulk(keys)
    return [by_key[key] for key in keys if key in by_key]


def _holds(asked: Filter) -> Q:
    condition = Q()
    for name, value in (("model", asked.model), ("text", asked.text)):
        if value:
            condition &= condition_of(name, [value])
    return condition


def _with_verdicts(examples: QuerySet[Example], asked: Filter) -> QuerySet[Example]:
    """Join the run's verdicts, if the filter or the order asks about them."""
    if asked.run is None or not (asked.label or asked.state or "verdict" in asked.column):
        return examples
    # The run is a condition of the join and not of the rows: examples without a verdict stay,
    # because an order by rank shows them last.
    of_run = Q(verdicts__run=asked.run)
    return examples.annotate(verdict=FilteredRelation("verdicts", condition=of_run))


def _matching(asked: Filter) -> QuerySet[Example]:
    """Return what matches by verdict, category and tag; by people's labels, a few more than do."""
    examples = _with_verdicts(Example.objects.filter(project=asked.project).visible(), asked)
    for name, value in (("category", asked.category), ("tag", asked.tag)):
        if value:
            examples = examples.filter(condition_of(name, [value]))
    if asked.run is not None and asked.label:
        examples = examples.filter(verdict__label=asked.label)
    if asked.run is not None and asked.state:
        conflict = asked.state == "conflict"
        wanted = {"verdict__conflict": True} if conflict else {"verdict__state": asked.state}
        examples = examples.filter(**wanted)
    # Check examples have a known label and no final one, so no filter on people's labels is about
    # them.
    if asked.is_about_votes:
        examples = _narrowed(examples.filter(is_check=False), asked)
    return examples


def _narrowed(examples: QuerySet[Example], asked: Filter) -> QuerySet[Example]:
    """Leave out what certainly doesn't match the filter on people's labels."""
    if asked.criterion:
        answered = Vote.objects.filter(example=OuterRef("pk"), answer__criteria__isnull=False)
        examples = examples.filter(Exists(answered))
    if asked.people == People.DIFFERS and asked.run is not None:
        votes = Vote.objects.filter(example=OuterRef("example"))
        decisions = Adjudication.objects.filter(item__example=OuterRef("example"))
        against = Verdict.objects.filter(
            Exists(votes.exclude(label=OuterRef("label")))
            | Exists(decisions.exclude(label=OuterRef("label"))),
            run=asked.run,
            label__isnull=False,
        )
        return examples.filter(pk__in=against.values("example"))
    items = Item.objects.filter(round__project=asked.project)
    if asked.run is not None:
        items = items.filter(round__run=asked.run, round__kind=Round.Kind.ROUTED)
    if asked.people == People.REVIEWED:
        settled = items.filter(
            Q(state=Item.State.COMPLETE)
            | Q(round__state=Round.State.CLOSED)
            | Exists(Adjudication.objects.filter(item=OuterRef("pk")))
        )
        return examples.filter(pk__in=settled.values("example"))
    if asked.people == People.UNDECIDED and asked.run is not None:
        waiting = items.filter(state=Item.State.ADJUDICATE)
        labelled = Verdict.objects.filter(run=asked.run, label__isnull=False)
        return examples.filter(
            Q(pk__in=waiting.values("example")) | ~Q(pk__in=labelled.values("example"))
        )
    leaves_out = asked.project.leave_out_unblinded
    if asked.people == People.UNREVIEWED and asked.run is not None and not leaves_out:
        # With votes left out, a complete item may have no label of people.
        complete = items.filter(state=Item.State.COMPLETE)
        return examples.exclude(pk__in=complete.values("example"))
    return examples


def _that_match(rows: Sequence[Merged], asked: Filter) -> list[Merged]:
    matching = [row for row in rows if _matches(row, asked)]
    if not asked.criterion:
        return matching
    contradicted = _contradicted(matching, asked)
    return [row for row in matching if row.example.pk in contradicted]


def _contradicted(rows: Sequence[Merged], asked: Filter) -> set[int]:
    """Return the keys of examples on which votes say different things on the criterion."""
    of = {
        vote.pk: row.example.pk for row in rows for vote in (row.people.votes if row.people else ())
    }
    directions: dict[int, set[int]] = {}
    for answer in criterion_answers(asked.project, of):
        if (strength := answer.strengths.get(asked.criterion)) is not None:
            directions.setdefault(of[answer.vote], set()).add((strength > 0) - (strength < 0))
    return {pk for pk, signs in directions.items() if len(signs) > 1}


def _matches(row: Merged, asked: Filter) -> bool:
    judge = row.verdict.label if row.verdict else None
    by_people = row.source not in (LabelSource.JUDGE, LabelSource.NONE)
    match asked.people:
        case People.DIFFERS:
            return bool(judge and row.human_label and judge != row.human_label)
        case People.UNDECIDED:
            return row.label is None
        case People.REVIEWED:
            return by_people
        case People.UNREVIEWED:
            return not by_people
    return True


def _stretches(
    asked: Filter, place: _Place | None, *, backwards: bool
) -> Iterator[QuerySet[Example]]:
    """Yield all that comes after a place, or before it, in stretches that are each in order.

    Verdicts without a value come last. Each stretch is one range of an index, where there is one:
    a condition with “or” would have the database sort all verdicts of a large run for each page.
    """
    examples, column = _matching(asked), asked.column
    down = asked.descending != backwards
    if not column.startswith("verdict"):
        start = None if place is None else (place.value, place.pk)
        yield _from(examples, column, start, down=down, backwards=backwards)
        return
    # Turned round, the order is the same from its other end.
    # By a name of its own, the value of every condition comes from the same joined row.
    examples = examples.alias(value=F(column))
    order = ("-value", "pk") if down else ("value", "-pk")
    filled = examples.filter(value__isnull=False).order_by(*order)
    start, is_empty = None, False
    if place is None:
        yield filled
    elif place.value is None:
        start, is_empty = (place.number, place.pk), True
    else:
        yield filled.filter(value=place.value, **{f"pk__{'gt' if down else 'lt'}": place.pk})
        yield filled.filter(**{f"value__{'lt' if down else 'gt'}": place.value})
    if is_empty or not backwards:
        empty = examples.filter(value=None)
        yield _from(empty, "number", start, down=backwards, backwards=backwards)
    if is_empty and backwards:
        yield filled


def _from(
    examples: QuerySet[Example], column: str, start: Any, *, down: bool, backwards: bool
) -> QuerySet[Example]:
    """Order by a column of examples, then by key, and keep what comes after a value and a key."""
    examples = examples.order_by(f"{'-' if down else ''}{column}", f"{'-' if backwards else ''}pk")
    if start is None:
        return examples
    value, pk = start
    larger = f"{column}__{'lt' if down else 'gt'}"
    # The bound on the column alone lets the database begin at that place of its index.
    bound = Q(**{f"{larger}e": value})
    further = Q(**{larger: value}) | Q(**{f"pk__{'lt' if backwards else 'gt'}": pk})
    return examples.filter(bound & further)
