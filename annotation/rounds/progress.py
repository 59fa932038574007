"""The progress of a round: items and votes, who is at work, and what it has cost and will cost."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, Max, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from annotation.models import Annotator, Intervention, Item, Repeat, Round, Seat, Slot, Vote
from annotation.people.annotators import voters_of
from judging.core.formatting import number_of
from judging.core.models import count_of
from judging.methods.review.cost import HumanRate, human_usd, human_usd_of_active_time
from judging.projects.models import Project


@dataclass(frozen=True)
class AtWork:
    """One person in a round.

    n_votes: votes that count here. The rest is about those that were cast here, the n_aside that
        were put aside among them.
    pace: mean active seconds per vote; seconds: their sum. None if no vote was timed.
    hold: why nothing more is handed out to them; empty if they may label.
    interventions: what was done about them and was not ended, the latest first.
    """

    annotator: Annotator
    n_votes: int
    in_hand: int
    pace: float | None
    seconds: float | None
    cost: Decimal
    last_at: datetime | None
    limit: int | None
    left: bool
    n_aside: int = 0
    hold: str = ""
    interventions: tuple[Intervention, ...] = ()


@dataclass(frozen=True)
class RoundProgress:
    """Items are done, undecided (need a decision), in work (begun or in somebody's hands) or open.

    not_needed: votes that won't be cast, because their items are settled without them.
    given_elsewhere: votes that count here and were cast in another round, by the round's number.
    seconds: active time as measured, of the votes cast here.
    cost, cost_left: USD for the votes cast here so far, by the round's cost basis, and for the
        votes still asked for, at the minutes assumed. Other votes were paid where they were cast.
    cost_measured: USD for the votes cast here by the time that people were active; None if no vote
        was timed. Votes without a time cost the minutes assumed.
    can_vote: people who may take items, including owners and researchers who never did.
    out_of_reach: open items that need more votes than all these people can give.
    n_aside: votes that were put aside. They don't count, and are in the costs and the time.
    repeats, repeat_seconds: pairs that people answered again, and active time for them. They are in
        no other figure.
    missing, n_lacking: votes that a closed round didn't get, and the items that lack them.
    """

    n_items: int
    done: int
    undecided: int
    in_work: int
    votes_asked: int
    votes_given: int
    not_needed: int
    given_elsewhere: tuple[tuple[int, int], ...]
    seconds: float
    cost: Decimal
    cost_left: Decimal
    cost_measured: Decimal | None
    can_vote: int
    out_of_reach: int
    people: tuple[AtWork, ...]
    n_flags: int
    n_aside: int = 0
    missing: int = 0
    n_lacking: int = 0
    repeats: int = 0
    repeat_seconds: float = 0.0

    @property
    def open(self) -> int:
        return self.n_items - self.done - self.undecided - self.in_work


def round_progress(round_: Round, now: datetime | None = None) -> RoundProgress:
    """Return the round's progress, in a constant number of queries whatever its size."""
    now = now or timezone.now()
    aside_anywhere = any_aside(round_)
    aside = _aside(round_) if aside_anywhere else {}
    asked = Slot.objects.asked().filter(round=round_)
    is_open = Q(item__state=Item.State.OPEN)
    begun = Q(vote__isnull=False) | Q(annotator__isnull=False, lease_until__gte=now)
    slots = asked.aggregate(
        asked=Count("*"),
        given=Count("vote"),
        # An item that skips or a decision settled gets no more votes.
        left=Count("pk", filter=Q(is_open, vote=None)),
        in_work=Count("item", distinct=True, filter=Q(is_open, begun)),
    )
    counts = _given(round_)
    came_from_elsewhere = any(row["n"] > row["cast"] for row in counts.values())
    paid = [*counts.values(), *aside.values()]
    slots["cast"] = sum(row["cast"] for row in paid)
    # Imported votes and those of an old browser come without a time.
    slots["untimed"] = slots["cast"] - sum(row["timed"] for row in paid)
    slots["seconds"] = sum(row["seconds"] or 0.0 for row in paid)
    is_closed = round_.state == Round.State.CLOSED
    rate = HumanRate(round_.minutes_per_vote, round_.wage_usd)
    voters, newcomers = voters_of(round_)
    return RoundProgress(
        **_items(round_),
        in_work=slots["in_work"],
        votes_asked=slots["asked"],
        votes_given=slots["given"],
        not_needed=slots["asked"] - slots["given"] - slots["left"],
        given_elsewhere=tuple(_given_elsewhere(round_)) if came_from_elsewhere else (),
        seconds=slots["seconds"],
        cost=votes_usd(round_, slots["cast"], slots["untimed"], slots["seconds"]),
        # What is left is priced at the assumed pace: nobody knows how fast the next votes will be.
        cost_left=human_usd(0 if is_closed else slots["left"], rate),
        cost_measured=_measured(round_, slots) if slots["cast"] > slots["untimed"] else None,
        can_vote=len(voters) + newcomers,
        out_of_reach=out_of_reach(round_, voters, newcomers, aside=aside_anywhere),
        people=tuple(_people(round_, now, counts, aside)),
        n_flags=count_flagged_items(round_),
        n_aside=sum(paid["cast"] for paid in aside.values()),
        missing=slots["asked"] - slots["given"] if is_closed else 0,
        n_lacking=asked.filter(vote=None).values("item").distinct().count() if is_closed else 0,
        **_repeats(round_),
    )


def _repeats(round_: Round) -> dict[str, Any]:
    if not round_.repeat_percent:
        return {}
    answered = Repeat.objects.filter(round=round_, submitted_at__isnull=False)
    seconds = Coalesce(Sum("active_seconds"), 0.0)
    repeated = answered.aggregate(repeats=Count("pk"), repeat_seconds=seconds)
    return dict(repeated)


def any_aside(round_: Round) -> bool:
    """Return True if votes that ask what this round asks were ever put aside, in any round.

    The votes themselves are many, and are not looked at.
    """
    made = Intervention.objects.filter(kind=Intervention.Kind.ASIDE)
    return made.filter(round__protocol=round_.protocol_id).exists()


def votes_aside(round_: Round) -> QuerySet[Vote]:
    """Return the votes given in this round that are put aside."""
    return Vote.every.filter(item__round=round_, aside_at__isnull=False)


def interventions_in(round_: Round) -> QuerySet[Intervention]:
    """Return what was done about people of this round and was not ended, the latest first."""
    return Intervention.objects.filter(round=round_, ended_at=None).order_by("-at", "-pk")


def _aside(round_: Round) -> dict[int, dict[str, Any]]:
    """Return what is paid for votes of this round that were put aside, by annotator."""
    rows = (
        votes_aside(round_)
        .order_by()
        .values("annotator")
        .annotate(
            cast=Count("pk"),
            timed=Count("active_seconds"),
            seconds=Sum("active_seconds"),
            last=Max("submitted_at"),
        )
    )
    return {row["annotator"]: row for row in rows}


# A vote counts in every round of its protocol that asks about the example. It is paid in one.
_CAST_HERE = Q(vote__item=F("item"))


def _given_elsewhere(round_: Round) -> QuerySet[Slot, tuple[int, int]]:
    slots = Slot.objects.filter(~_CAST_HERE, round=round_, vote__isnull=False)
    rounds = slots.values_list("vote__item__round__number").order_by("vote__item__round__number")
    return rounds.annotate(n=Count("pk"))


def out_of_reach(round_: Round, voters: Collection[int], newcomers: int, *, aside: bool) -> int:
    """Count the open items that would stay open if all these people voted.

    Skipped items don't count, since they come to a decision in the end.

    Args:
        voters: Annotators who may vote.
        newcomers: Number of members who may vote and never did.
        aside: What `any_aside` says. Those voters can't give other votes on the same pairs.
    """
    people = len(voters) + newcomers
    enough = people >= round_.votes_per_item and not aside
    if round_.state == Round.State.CLOSED or enough:
        return 0
    items = Item.objects.filter(round=round_, state=Item.State.OPEN, skips=None)
    asked = Q(slots__vote=None, slots__index__lt=F("round__votes_per_item"))
    items = items.annotate(missing=Count("slots", filter=asked))
    if not voters:
        # SQL has no empty list, and none of the votes is theirs.
        return items.filter(missing__gt=newcomers).count()
    given_by_them = Count("slots", filter=Q(slots__vote__annotator__in=voters))
    put_aside = Vote.every.filter(
        aside_at__isnull=False,
        annotator__in=voters,
        protocol=round_.protocol_id,
        example=OuterRef("example"),
    )
    items = items.annotate(could_come=people - given_by_them - count_of(put_aside, "example"))
    return items.filter(missing__gt=F("could_come")).count()


def rounds_with_counts(project: Project) -> QuerySet[Round]:
    """Return the project's rounds with their counts, the latest first, also one being opened."""
    items = Item.objects.filter(round=OuterRef("pk"))
    slots = Slot.objects.asked().filter(round=OuterRef("pk"))
    return (
        Round.every.filter(project=project)
        .select_related("run", "protocol")
        .annotate(
            n_items=count_of(items, "round"),
            n_done=count_of(items.filter(state=Item.State.COMPLETE), "round"),
            n_undecided=count_of(items.filter(state=Item.State.ADJUDICATE), "round"),
            n_asked=count_of(slots, "round"),
            n_given=count_of(slots.filter(vote__isnull=False), "round"),
        )
        .order_by("-number")
    )


WAITS_FOR_VOTES = Q(state=Item.State.OPEN) & ~Q(round__state=Round.State.CLOSED)


def say_undecided(n: int) -> str:
    return f"{number_of(n, 'item')} {'needs' if n == 1 else 'need'} a decision"


def say_waiting(n: int) -> str:
    return f"{number_of(n, 'item')} {'waits' if n == 1 else 'wait'} for votes"


def say_what_waits(project: Project) -> str:
    """Say in one sentence what the project's rounds wait for."""
    items = Item.objects.filter(round__project=project, round__kind=Round.Kind.ROUTED)
    undecided = Q(state=Item.State.ADJUDICATE)
    # Both counts in one query, since the overview shows this for every project.
    numbers = items.aggregate(
        n=Count("pk"), waiting=Count("pk", WAITS_FOR_VOTES), undecided=Count("pk", undecided)
    )
    parts = [
        say_undecided(numbers["undecided"]) if numbers["undecided"] else "",
        say_waiting(numbers["waiting"]) if numbers["waiting"] else "",
    ]
    if any(parts):
        return f"{' and '.join(filter(None, parts))}."
    if not numbers["n"]:
        return "No round has asked people yet."
    return f"Nothing waits: people are done with {number_of(numbers['n'], 'item')}."


def count_flagged_items(round_: Round) -> int:
    """Count the items with a flag that nobody has settled yet."""
    return Item.objects.filter(round=round_, flags__settled_at=None, flags__isnull=False).count()


def _items(round_: Round) -> dict[str, int]:
    return Item.objects.filter(round=round_).aggregate(
        n_items=Count("*"),
        done=Count("pk", filter=Q(state=Item.State.COMPLETE)),
        undecided=Count("pk", filter=Q(state=Item.State.ADJUDICATE)),
    )


def _given(round_: Round) -> dict[int, dict[str, Any]]:
    """Return the votes that count in the round, and what is paid for them here, by annotator."""
    rows = (
        Slot.objects.filter(round=round_, vote__isnull=False)
        .values("vote__annotator")
        .annotate(
            n=Count("*"),
            cast=Count("pk", filter=_CAST_HERE),
            timed=Count("vote__active_seconds", filter=_CAST_HERE),
            seconds=Sum("vote__active_seconds", filter=_CAST_HERE),
            last=Max("vote__submitted_at"),
        )
    )
    return {row["vote__annotator"]: row for row in rows}


def _people(
    round_: Round,
    now: datetime,
    votes_of: Mapping[int, Mapping[str, Any]],
    aside: Mapping[int, Mapping[str, Any]],
) -> list[AtWork]:
    slots = Slot.objects.filter(round=round_)
    hands = slots.filter(vote=None, lease_until__gte=now).values_list("annotator")
    in_hand = dict(hands.annotate(n=Count("pk")))
    seats = {seat.annotator_id: seat for seat in Seat.objects.filter(round=round_)}
    made: dict[int, list[Intervention]] = defaultdict(list)
    for intervention in interventions_in(round_):
        made[intervention.annotator_id].append(intervention)
    known = {*votes_of, *in_hand, *seats, *aside}
    people = []
    for annotator in Annotator.objects.filter(pk__in=known).order_by("number"):
        row, seat = votes_of.get(annotator.pk, {}), seats.get(annotator.pk)
        both = row, aside.get(annotator.pk, {})
        # Votes put aside don't count, and the people who gave them are paid all the same.
        cast, timed = (sum(part.get(name, 0) for part in both) for name in ("cast", "timed"))
        seconds = sum(part.get("seconds") or 0.0 for part in both)
        people.append(
            AtWork(
                annotator,
                n_votes=row.get("n", 0),
                in_hand=in_hand.get(annotator.pk, 0),
                pace=seconds / timed if timed else None,
                seconds=seconds if timed else None,
                cost=votes_usd(round_, cast, cast - timed, seconds),
                last_at=max(filter(None, (part.get("last") for part in both)), default=None),
                limit=seat.limit if seat else None,
                left=annotator.left_at is not None or bool(seat and seat.left_at),
                n_aside=both[1].get("cast", 0),
                hold=seat.hold if seat else "",
                interventions=tuple(made[annotator.pk]),
            )
        )
    return people


def votes_usd(round_: Round, n_votes: int, untimed: int, seconds: float) -> Decimal:
    """Return USD for votes cast in the round, by its cost basis.

    If measured time is paid, a vote without one costs the minutes assumed.
    """
    if round_.cost_basis != Project.CostBasis.MEASURED:
        return human_usd(n_votes, HumanRate(round_.minutes_per_vote, round_.wage_usd))
    return _measured(round_, {"seconds": seconds, "untimed": untimed})


def _measured(round_: Round, votes: Mapping[str, Any]) -> Decimal:
    timed = human_usd_of_active_time(Decimal(repr(votes["seconds"])), round_.wage_usd)
    rate = HumanRate(round_.minutes_per_vote, round_.wage_usd)
    return timed + human_usd(votes["untimed"], rate)
