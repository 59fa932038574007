"""A person's progress in a round, the rounds open to them, and why there is nothing to label."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db.models import (
    Case,
    Count,
    Exists,
    F,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    When,
)
from django.db.models.functions import Coalesce, Left
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from annotation.models import (
    Annotator,
    Draft,
    Intervention,
    Item,
    PracticeResult,
    Protocol,
    Repeat,
    Round,
    Seat,
    Selection,
    Skip,
    Slot,
    Vote,
)
from annotation.queue.drafts import answer_words
from annotation.queue.queue import NoItem, free_for, practice_results
from annotation.queue.repeats import repeats_to_expect
from annotation.rounds.opening import practice_of
from annotation.rounds.practice import rounds_after
from annotation.screen.blind import Feedback, feedback_from
from annotation.screen.hand import address_of, leave_address_of, return_address_of
from judging.core.images import in_words
from judging.core.sql.statements import prepared
from judging.projects.access import who_label
from judging.projects.models import Membership, Role

# Enough votes for a steady figure, few enough to follow a change of pace.
_RECENT = 20
# Free slots up to which what is left is counted, so that a vote is as fast in a large round.
_MOST_COUNTED = 150
# Characters of a question in the list of one's own votes, and skips that it shows.
EXCERPT, MOST_SKIPS = 160, 200


@dataclass(frozen=True)
class OwnProgress:
    """pace: mean active seconds of the last votes. is_warned: about their attention."""

    where: str
    done: int
    total: int
    pace: float | None = None
    is_warned: bool = False

    @property
    def time_left(self) -> str:
        """Return how long the rest takes at the person's own pace, or "" if that isn't known."""
        if not self.pace or self.done >= self.total:
            return ""
        minutes = (self.total - self.done) * self.pace / 60
        if minutes < 1:
            return _("less than 1 min left")
        if minutes < 100:
            return _("about %(n)s min left") % {"n": f"{minutes:.0f}"}
        return _("about %(n)s h left") % {"n": f"{minutes / 60:.0f}"}


@dataclass(frozen=True)
class OpenRound:
    """A round that is not closed, with the address that hands out its next item.

    finished: nothing in it waits for this person; left: they left it; held: the project hands
        nothing more out to them.
    waits: it opens for them after another round.
    key: the round's primary key, which no page shows.
    n_skipped: pairs that they skipped and may take up again; skipped_token: the last of them.
    """

    where: str
    url: str
    leave_url: str
    return_url: str
    done: int
    total: int
    paused: bool
    finished: bool
    left: bool
    held: bool
    n_skipped: int
    skipped_token: str
    waits: bool = False
    key: int = 0

    @property
    def is_over(self) -> bool:
        """Return True if nothing is left to do here, unless the person comes back by themselves."""
        return self.left or self.held or (self.finished and not self.n_skipped)


_PRACTICE = {
    Round.Kind.TRAINING: _lazy("%(project)s · round %(n)s · training"),
    Round.Kind.QUALIFICATION: _lazy("%(project)s · round %(n)s · qualification"),
}


def title_of(round_: Round) -> str:
    title = _PRACTICE.get(Round.Kind(round_.kind)) or _("%(project)s · round %(n)s")
    return str(title) % {"project": round_.project.name, "n": round_.number}


def progress_of(round_: Round, annotator: Annotator) -> OwnProgress:
    """Count the person's own slots, so that the size of the round doesn't matter."""
    who = {"round_": round_.pk, "annotator": annotator.pk}
    items, done, *left, limit, is_warned = _counts.first(**who, now=timezone.now())
    # The limit comes last: it bounds what the person may do, whatever is free.
    items = _most(_within_reach(items, done, *left), limit)
    if round_.kind in Round.PRACTICE:
        items, done = _practised(round_, annotator)
    if round_.repeat_percent:
        # A pair that comes again counts like any other, so that nothing tells it from them.
        answered = Repeat.objects.filter(round=round_, annotator=annotator)
        done += answered.filter(submitted_at__isnull=False).count()
        items += repeats_to_expect(round_, annotator, items)
    seconds = [each for (each,) in _recent_seconds.all(**who) if each is not None]
    return OwnProgress(
        title_of(round_), done, items, fmean(seconds) if seconds else None, bool(is_warned)
    )


def _practised(round_: Round, annotator: Annotator) -> tuple[int, int]:
    """Return how many pairs this try has, and how many of them the person answered."""
    pairs = [result.n for result in practice_results(round_, annotator)]
    mine = Slot.objects.filter(round=round_, annotator=annotator)
    reserved = mine.aggregate(n=Count("pk"), done=Count("vote"))
    earlier = sum(pairs)
    if pairs and reserved["n"] == earlier:
        # Between tries, and after the last one.
        return pairs[-1], pairs[-1]
    return reserved["n"] - earlier, reserved["done"] - earlier


def _filled(round_: Any, annotator: Any) -> QuerySet[Slot]:
    return Slot.objects.filter(annotator=annotator, round=round_, vote__isnull=False)


def _within_reach(items: int, done: int, in_hand: int, free: int | None) -> int:
    """Return how many of a round's items the person voted on or can still get."""
    return items if free is None else min(items, done + in_hand + free)


def _left_for(slots: QuerySet[Slot], now: Any, **whose: Any) -> dict[str, Any]:
    """Count what a person can still get of each round of a query, from where they are on.

    What others give back behind that place counts as soon as it is handed out. `free` is None if
    more will be selected, or there is more than can be counted fast.

    Args:
        slots: the person's own of each round.
    """

    def unfilled(up: int) -> QuerySet[Slot]:
        seat = Seat.objects.filter(round=_round(up + 1), **whose).values("cursor")[:1]
        reached = Coalesce(Subquery(seat), -1.0)
        slots = Slot.objects.filter(round=_round(up), vote=None, position__gt=reached)
        return slots.order_by("position").values("pk")

    free = free_for(OuterRef("round__protocol"), now, **whose)
    # Only the nearest free slots are looked at, so that the count costs the same in any round.
    near = free.filter(pk__in=unfilled(2)[:_MOST_COUNTED]).values("round")
    held = slots.filter(vote=None).values("round")
    there_is_more = Exists(unfilled(1)[_MOST_COUNTED : _MOST_COUNTED + 1])
    n_free = Coalesce(_number(near.annotate(n=Count("item", distinct=True))), 0)
    return {
        "in_hand": Coalesce(_number(held.annotate(n=Count("pk"))), 0),
        "free": Case(
            When(there_is_more, then=None),
            # More pairs are selected later, so what is free now isn't what is left.
            When(stage=Round.Stage.LEARN, then=None),
            default=n_free,
            output_field=IntegerField(),
        ),
    }


def _round(up: int) -> Any:
    """Refer to the round of the query that is `up` levels further out."""
    return OuterRef(_round(up - 1)) if up else "pk"


@prepared
def _counts(round_: Any, annotator: Any, now: Any) -> QuerySet[Round, Any]:
    seats = Seat.objects.filter(round=round_, annotator=annotator)
    parts = Selection.objects.filter(round=OuterRef("pk")).values("round")
    mine = _filled(round_, annotator).values("round")
    counted = Round.objects.filter(pk=round_).annotate(
        in_it=Coalesce(_number(parts.annotate(n=Sum("n_items"))), 0),
        done=Coalesce(_number(mine.annotate(n=Count("pk"))), 0),
        limit=Subquery(seats.values("limit")[:1]),
        is_warned=Exists(
            Intervention.objects.filter(
                round=round_, annotator=annotator, kind=Intervention.Kind.WARN, ended_at=None
            )
        ),
        **_left_for(
            Slot.objects.filter(round=round_, annotator=annotator), now, annotator=annotator
        ),
    )
    return counted.values_list("in_it", "done", "in_hand", "free", "limit", "is_warned")


@prepared
def _recent_seconds(round_: Any, annotator: Any) -> QuerySet[Slot, Any]:
    # By key, which an index gives at once. Times of votes are not indexed.
    latest = _filled(round_, annotator).order_by("-vote_id")
    return latest.values_list("vote__active_seconds")[:_RECENT]


def _most(items: int, limit: int | None) -> int:
    return items if limit is None else min(items, limit)


def open_work(user: AbstractUser) -> list[OpenRound]:
    """Return the rounds open to this person: those with work first, then the oldest first."""
    rounds = [
        OpenRound(
            title_of(round_),
            address_of(round_),
            leave_address_of(round_),
            return_address_of(round_),
            round_.done - round_.tried,
            _total(round_, finished := _is_finished(round_)),
            round_.state == Round.State.PAUSED,
            finished,
            round_.has_left,
            round_.is_held,
            round_.n_skipped,
            round_.skipped or "",
            waits=round_.after_id is not None and not round_.may_begin,
            key=round_.pk,
        )
        for round_ in _open_rounds(user)
    ]
    order = ("is_over", "left", "held", "finished", "waits", "paused")
    return sorted(rounds, key=lambda round_: [getattr(round_, name) for name in order])


def _most_of(round_: Round) -> int:
    is_practice = round_.kind in Round.PRACTICE
    most = round_.parameters.get("pairs") if is_practice else round_.limit
    return _most(round_.items_in_it, most)


def _total(round_: Round, finished: bool) -> int:
    """Return how many pairs the person has and can still get: one more than done, if any."""
    most = _most_of(round_)
    if finished or round_.kind in Round.PRACTICE:
        return most
    reach = _within_reach(round_.items_in_it, round_.done, round_.in_hand, round_.free)
    # Work is left, so the total must not be reached while another person's slot comes free.
    return min(most, max(round_.done + 1, reach))


def _is_finished(round_: Round) -> bool:
    if round_.kind in Round.PRACTICE:
        return bool(round_.is_over)
    if round_.repeat_due is not None and round_.repeat_due <= round_.done:
        return False
    return not round_.has_work or round_.done >= _most_of(round_)


def labelled_by(user: AbstractUser) -> QuerySet[Membership]:
    """Return memberships in which this person is only an annotator, by the project's name."""
    mine = Membership.objects.filter(user=user, role=Role.ANNOTATOR).select_related("project")
    return mine.order_by("project__name", "pk")


def _open_rounds(user: AbstractUser) -> QuerySet[Round]:
    seats = Seat.objects.filter(round=OuterRef("pk"), annotator__user=user)
    # One row, so that the person's own slots are found without a walk over the round.
    own = Annotator.objects.filter(user=user, project=OuterRef(OuterRef("project")))
    slots = Slot.objects.filter(round=OuterRef("pk"), annotator=Subquery(own.values("pk")[:1]))
    mine = slots.filter(vote__isnull=False)
    skipped = skipped_drafts(annotator__user=user, item__round=OuterRef("pk"))
    n_skipped = skipped.order_by().values("item__round").annotate(n=Count("pk"))
    parts = Selection.objects.filter(round=OuterRef("pk")).values("round")
    results = PracticeResult.objects.filter(round=OuterRef("pk"), annotator__user=user)
    to_come = Repeat.objects.filter(
        round=OuterRef("pk"),
        annotator__user=user,
        submitted_at=None,
        skipped_at=None,
        vote__aside_at=None,
    )
    passed = PracticeResult.objects.filter(
        round=OuterRef("after"), annotator__user=user, passed=True
    )
    labels = who_label().filter(user=user)
    rounds = Round.objects.filter(project__in=labels.values("project"))
    # Such a round holds votes from elsewhere, and nobody labels in it.
    rounds = rounds.exclude(kind=Round.Kind.IMPORT)
    return (
        rounds.exclude(state=Round.State.CLOSED)
        .filter(Q(open_to_all=True) | Exists(seats))
        .select_related("project")
        .annotate(
            has_left=Exists(seats.filter(left_at__isnull=False)),
            is_held=Exists(seats.exclude(hold=Seat.Hold.NONE)),
            has_work=Exists(_work_for(user)),
            is_over=Exists(results.filter(is_over=True)),
            may_begin=Exists(passed),
            repeat_due=Subquery(to_come.order_by("due").values("due")[:1]),
            # Pairs of a try that wasn't passed belong to it. Those of the last one are shown.
            tried=Coalesce(
                _number(results.filter(is_over=False).values("round").annotate(n=Sum("n"))), 0
            ),
            n_skipped=Coalesce(_number(n_skipped), 0),
            skipped=Subquery(skipped.values("token")[:1]),
            limit=Subquery(seats.values("limit")[:1]),
            done=Coalesce(_number(mine.values("round").annotate(n=Count("pk"))), 0),
            items_in_it=Coalesce(_number(parts.annotate(n=Sum("n_items"))), 0),
            **_left_for(slots, timezone.now(), annotator__user=user),
        )
        .order_by(F("opened_at").asc(), "pk")
    )


def _work_for(user: AbstractUser) -> QuerySet[Slot]:
    """Unfilled slots of items that this person neither skipped nor voted on."""
    skips = Skip.objects.filter(item=OuterRef("item"), annotator__user=user)
    votes = Vote.every.filter(
        example=OuterRef("item__example"),
        protocol=OuterRef("item__round__protocol"),
        annotator__user=user,
    )
    unfilled = Slot.objects.asked().filter(
        round=OuterRef("pk"), vote=None, item__state=Item.State.OPEN
    )
    return unfilled.filter(~Exists(skips), ~Exists(votes))


def skipped_drafts(**whose: Any) -> QuerySet[Draft]:
    """Return the drafts of pairs that a person skipped and may take up again, the last first."""
    theirs = Skip.objects.filter(item=OuterRef("item"), annotator=OuterRef("annotator"))
    unfilled = Slot.objects.filter(item=OuterRef("item"), vote=None)
    drafts = Draft.objects.filter(Exists(theirs), Exists(unfilled), **whose)
    return drafts.exclude(item__state=Item.State.COMPLETE).order_by("-updated_at", "-pk")


@dataclass(frozen=True)
class OwnVote:
    """A vote of a person, for the list from which they go back to it."""

    token: str
    question: str
    answer: str
    comment: str
    at: datetime | None
    is_aside: bool = False
    is_final: bool = False
    feedback: Feedback | None = None


@dataclass(frozen=True)
class OwnSkip:
    """A pair that a person skipped. free: they can still take it up."""

    token: str
    question: str
    at: datetime
    free: bool


def own_votes(round_: Round, annotator: Annotator) -> QuerySet[Vote]:
    """Return the person's votes of this round with their tokens, the latest first."""
    told = round_.kind == Round.Kind.TRAINING
    drafts = Draft.objects.filter(item=OuterRef("item"), annotator=annotator)
    votes = Vote.every.filter(
        annotator=annotator, item__round=round_, source=Vote.Source.SCREEN
    ).annotate(
        **({"known": F("example__gold_label"), "why": F("example__explanation")} if told else {}),
        token=Subquery(drafts.values("token")[:1]),
        start=Left("example__question", EXCERPT + 1),
    )
    return votes.filter(token__isnull=False).order_by("-submitted_at", "-pk")


def as_listed(votes: Iterable[Vote], protocol: Protocol) -> list[OwnVote]:
    words = answer_words(protocol)
    return [
        OwnVote(
            vote.token,
            _excerpt(vote.start),
            words.get(vote.answer.get("overall"), vote.label),
            vote.comment,
            vote.submitted_at,
            vote.aside_at is not None,
            vote.is_practice,
            feedback_from(vote, protocol, vote.known, vote.why) if hasattr(vote, "known") else None,
        )
        for vote in votes
    ]


def own_skips(round_: Round, annotator: Annotator) -> list[OwnSkip]:
    """Return what the person skipped in this round and did not vote on later, the last first."""
    drafts = Draft.objects.filter(item=OuterRef("item"), annotator=annotator)
    free = Slot.objects.filter(item=OuterRef("item"), vote=None)
    voted = Vote.every.filter(item=OuterRef("item"), annotator=annotator)
    skips = Skip.objects.filter(~Exists(voted), item__round=round_, annotator=annotator).annotate(
        token=Subquery(drafts.values("token")[:1]),
        start=Left("item__example__question", EXCERPT + 1),
        free=Exists(free.exclude(item__state=Item.State.COMPLETE)),
    )
    return [
        OwnSkip(skip.token, _excerpt(skip.start), skip.at, skip.free)
        for skip in skips.filter(token__isnull=False).order_by("-at", "-pk")[:MOST_SKIPS]
    ]


def _excerpt(start: str) -> str:
    # Line breaks and images would stretch a list that is there to be scanned.
    text = " ".join(in_words(start).split())
    return text if len(start) <= EXCERPT else f"{text[:EXCERPT].rstrip()} …"


_AFTER_A_SKIP: dict[str, str] = {
    Item.State.OPEN: _lazy("Skipped. Someone else can label that pair."),
    Item.State.ADJUDICATE: _lazy("Skipped. Nobody else is left to label that pair."),
    Item.State.COMPLETE: _lazy("Skipped. That pair needs no more votes."),
}


def skipped_sentence(token: str) -> str:
    """Say what becomes of the pair that was just skipped."""
    states = Draft.objects.filter(token=token).values_list("item__state", flat=True)
    return str(_AFTER_A_SKIP[states.first() or Item.State.OPEN])


def _number(counted: QuerySet) -> Subquery:
    return Subquery(counted.values("n"), output_field=IntegerField())


@dataclass(frozen=True)
class Ending:
    title: str
    text: str
    until: datetime | None = None
    next_url: str = ""
    next_text: str = ""
    return_url: str = ""
    goes_on: bool = False
    is_held: bool = False


_TEXTS = {
    "done": (
        _lazy("You are done"),
        _lazy(
            "There is nothing left for you in this round. Your votes are stored, and can be "
            "changed until the round is closed."
        ),
    ),
    "left": (_lazy("You left this round"), _lazy("Your votes are stored. You get no more pairs.")),
    "held": (
        _lazy("You are paused in this round"),
        _lazy(
            "This round contains pairs whose right answer is known. Too many of your answers to "
            "them were different. Your votes are stored. An owner of the project can let you go on."
        ),
    ),
    "stopped": (
        _lazy("You get no more pairs"),
        _lazy(
            "The project decided that you label no more pairs of this round. If you think that is "
            "a mistake, ask its owner."
        ),
    ),
    "failed": (
        _lazy("You can't go on in this round"),
        _lazy(
            "This round contains pairs whose right answer is known. Too many of your answers to "
            "them were different. If you think that is a mistake, ask the owner of the project."
        ),
    ),
    "more_to_come": (
        _lazy("More pairs are coming"),
        _lazy(
            "The next pairs of this round are selected after the last votes on the first ones. "
            "This page continues by itself as soon as they are ready."
        ),
    ),
    "in_work": (
        _lazy("Nothing is free at the moment"),
        _lazy("Other people are working on all pairs that are left for you."),
    ),
    "not_assigned": (
        _lazy("No pair of this round is assigned to you"),
        _lazy("If you expected some, ask the owner of the project."),
    ),
    "limit": (
        _lazy("You have done your share"),
        _lazy(
            "You labelled as many pairs as were assigned to you in this round. Your votes are "
            "stored, and can be changed until the round is closed."
        ),
    ),
    "used_up": (
        _lazy("There are not enough new pairs for you"),
        _lazy(
            "You answered most pairs of this round before. Ask the owner of the project to add "
            "some."
        ),
    ),
    "paused": (
        _lazy("This round is paused"),
        _lazy("Its owner paused it. What you entered is stored; come back later."),
    ),
    "closed": (
        _lazy("This round is closed"),
        _lazy("It takes no more votes. Yours are stored and can no longer be changed."),
    ),
}
_WITHOUT_VOTES = {
    "done": (_lazy("Nothing to label"), _lazy("There is nothing left for you in this round.")),
    "left": (_lazy("You left this round"), _lazy("You get no more pairs.")),
    "paused": (_lazy("This round is paused"), _lazy("Its owner paused it. Come back later.")),
    "closed": (_lazy("This round is closed"), _lazy("It takes no more votes.")),
}
_WAITING = ("in_work", "more_to_come", "paused")


def _practice_ending(reason: str, round_: Round, annotator: Annotator) -> Ending:
    """Say how a person did in training or in a try, and where they go on."""
    last = practice_results(round_, annotator).last()
    practice, sentences = practice_of(round_), []
    if last is not None and last.n:
        sentences.append(
            _("Right answers: %(right)s of %(n)s.") % {"right": last.right, "n": last.n}
        )
    title = {
        "trained": _("Training is done"),
        "qualified": _("You passed"),
        "try_again": _("Not passed yet"),
        "not_passed": _("Not passed"),
    }[reason]
    if reason in ("try_again", "not_passed"):
        mark = number_format(practice.pass_mark.normalize())
        sentences.append(_("To pass, %(share)s %% must be right.") % {"share": mark})
    next_url = next_text = ""
    if reason == "try_again":
        left = practice.tries - (last.number if last else 0)
        sentences.append(_("You can try again, with other pairs."))
        sentences.append(
            ngettext("You have %(n)s more try.", "You have %(n)s more tries.", left) % {"n": left}
        )
        next_url, next_text = f"{address_of(round_)}?again=1", _("Try again")
    elif reason == "not_passed":
        sentences.append(_("You have no try left. Thank you for your time."))
    elif after := _first_open(rounds_after(round_), annotator):
        sentences.append(_("The next round is open for you."))
        next_url, next_text = address_of(after), _("Go on")
    else:
        sentences.append(_("There is nothing else to do here for now."))
    return Ending(title, " ".join(sentences), None, next_url, next_text)


def _first_open(rounds: Iterable[Round], annotator: Annotator) -> Round | None:
    for each in rounds:
        if each.open_to_all or Seat.objects.filter(round=each, annotator=annotator).exists():
            return each
    return None


def _before(round_: Round, annotator: Annotator) -> Ending:
    """Lead to what comes before a round, or say that it can't be passed any more."""
    before = round_.after
    title = _("A qualification comes first")
    if before.kind == Round.Kind.TRAINING:
        title = _("Training comes first")
    if practice_results(before, annotator).filter(is_over=True).exists():
        sentence = _(
            "You did not pass it, so this round doesn't open for you. Ask the project's owner."
        )
        return Ending(title, sentence)
    if before.state == Round.State.CLOSED:
        sentence = _("It is closed, so this round doesn't open for you. Ask the project's owner.")
        return Ending(title, sentence)
    sentence = _("This round opens for you as soon as you have passed it.")
    return Ending(title, sentence, None, address_of(before), _("Start"))


def ending_of(nothing: NoItem, round_: Round, annotator: Annotator, *, has_voted: bool) -> Ending:
    """Return the message for the queue's reason to hand out nothing."""
    if nothing.reason == "first":
        return _before(round_, annotator)
    if nothing.reason in ("trained", "qualified", "try_again", "not_passed"):
        return _practice_ending(nothing.reason, round_, annotator)
    texts = _TEXTS if has_voted else _TEXTS | _WITHOUT_VOTES
    title, text = texts[nothing.reason]
    again = address_of(round_) if nothing.reason in _WAITING else ""
    back = return_address_of(round_) if nothing.reason == "left" else ""
    look = _("Look again") if again else ""
    goes_on = nothing.reason == "more_to_come"
    is_held = nothing.reason in ("held", "stopped", "failed")
    return Ending(title, text, nothing.until, again, look, back, goes_on, is_held)


def refusal(title: str, sentence: str, round_: Round) -> Ending:
    """Return the message for an item or a vote that is not accepted, with a link to go on."""
    return Ending(title, sentence, None, address_of(round_), _("Go on"))
