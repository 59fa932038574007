"""Votes: recorded exactly once, edited with their history; and decisions on what votes left open.

A vote counts in the round in which it is given and in every other open round that asks the same.
All items in which it counts are locked first, in the order of their keys, so that two votes on
one example wait for each other in turn. Constraints of the tables keep a vote from being stored
twice: a check before the write could not.
"""

from random import Random
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from annotation.models import (
    Adjudication,
    Annotator,
    Draft,
    FirstChoice,
    Item,
    Repeat,
    Round,
    Selection,
    Slot,
    Vote,
    VoteRevision,
)
from annotation.queue.drafts import (
    CANT_JUDGE,
    MAX_COMMENT,
    checked_answer,
    clamp_seconds,
    label_of,
    save_draft,
)
from annotation.queue.queue import (
    ADJUDICATED,
    CHANGED,
    VOTED,
    WITHDRAWN,
    claim_slot_of,
    record_item_event,
    release,
    why_no_items,
)
from annotation.queue.repeats import plan_repeat, record_again
from annotation.queue.settling import count_vote_in, items_with_lock, settle, settle_locked
from annotation.rounds.practice import finish
from annotation.votes.aside import judge_attention
from judging.core.errors import UserError
from judging.core.sql.statements import Changed, insert_one, prepared, prepared_update
from judging.dataset.models import Label
from judging.projects import access
from judging.projects.models import Membership

FIRST_CHOICE = "first choice"
SIDES = ("left", "tie", "right")
PRACTICE_IS_FINAL = _lazy("An answer in training or in a qualification can't be changed.")
_CLOSED = _lazy("This round was closed. Your choice is kept, but is not counted.")
_WHY_NONE = {
    "left": _lazy("You left this round"),
    "not_assigned": _lazy("This round is assigned to other people now"),
    "held": _lazy("You are paused in this round"),
    "stopped": _lazy("You get no more pairs of this round"),
    "failed": _lazy("You can't go on in this round"),
    "limit": _lazy("You labelled as many pairs as were assigned to you"),
    "first": _lazy("This round opens for you after another one"),
}


_EDITED = ("answer", "comment", "label", "language", "unblinded", "active_seconds", "updated_at")


class NotNeeded(UserError):
    """The item got all its votes from others while this vote was being made."""


class RoundClosed(UserError):
    """The round no longer takes votes."""


def record_vote(draft: Draft, answer: Any, comment: str = "", added_seconds: float = 0.0) -> Vote:
    """Store the vote. Posting the same item twice stores one vote and returns it.

    Raises UserError (the answer is incomplete), RoundClosed, or NotNeeded; the draft is kept.
    """
    checked = checked_answer(draft.item.round.protocol, answer, comment)
    if draft.repeat_id is not None:
        return _record_again(draft, checked, comment, added_seconds)
    try:
        return _record(draft, checked, comment, added_seconds)
    # The choice is kept as a draft, so that nothing has to be typed twice.
    except UserError:
        save_draft(draft, checked, comment, added_seconds)
        raise


def _record_again(draft: Draft, checked: dict[str, Any], comment: str, seconds: float) -> Repeat:
    save_draft(draft, checked, comment, seconds)
    round_ = draft.item.round
    if round_.state == Round.State.CLOSED:
        raise RoundClosed(_CLOSED)
    if nothing := why_no_items(round_, draft.annotator, within_limit=True):
        raise RoundClosed(
            _("%(why)s. Your choice is kept, but is not counted.")
            % {"why": _WHY_NONE[nothing.reason]}
        )
    if (repeat := record_again(draft, checked, draft.comment)) is None:
        raise NotNeeded(_("You can't answer this pair again. Go on with the next pair."))
    return repeat


def _record(draft: Draft, checked: dict[str, Any], comment: str, seconds: float) -> Vote:
    """The draft is saved in the vote's transaction, since with many people each commit waits for
    those of others."""
    if (recorded := _recorded(draft)) is not None:
        save_draft(draft, checked, comment, seconds)
        return recorded
    slot = _slot_for(draft)
    # Before the transaction, which holds the locks that other voters on this pair wait for.
    unblinded = _has_seen_judge(draft.annotator)
    try:
        with transaction.atomic():
            save_draft(draft, checked, comment, seconds)
            return _store(draft, slot, unblinded)
    except IntegrityError:
        # The same vote arrived twice at once: the constraint kept one of them.
        if (recorded := _recorded(draft)) is not None:
            return recorded
        raise UserError(
            _("This pair went to another annotator just now. Your choice is kept. Submit it again.")
        ) from None


def _slot_for(draft: Draft) -> Slot:
    """Return the slot in hand, or a free one of the item. Raises RoundClosed or NotNeeded."""
    round_ = draft.item.round
    if round_.state == Round.State.CLOSED:
        raise RoundClosed(_CLOSED)
    # A lease may have run out while the person thought. The place is taken again if it is still
    # free.
    slot = claim_slot_of(draft.item, draft.annotator, timezone.now())
    if slot is None and (nothing := why_no_items(round_, draft.annotator)):
        raise RoundClosed(
            _("%(why)s. Your choice is kept, but is not counted.")
            % {"why": _WHY_NONE[nothing.reason]}
        )
    if slot is None and takes_votes(draft.item):
        raise UserError(
            _(
                "Other annotators are working on this pair, so your vote was not stored. Your "
                "choice is kept. Submit it again later, or go on with the next pair."
            )
        )
    if slot is None:
        raise NotNeeded(
            _("%(why)s Go on with the next pair.") % {"why": why_not_needed(draft.item)}
        )
    return slot


def takes_votes(item: Item) -> bool:
    """Return True if the item, as it is now, still has room for a vote."""
    unfilled = Slot.objects.filter(item=item.pk, item__state=Item.State.OPEN, vote=None)
    return unfilled.exists()


def why_not_needed(item: Item) -> str:
    """Say why an item takes no more votes."""
    if Slot.objects.filter(item=item.pk, vote=None).exists():
        return _("This pair is left to a decision by the project's owners and takes no more votes.")
    return _("This pair got all the votes it needs, so no other was added.")


def edit_vote(vote: Vote, answer: Any, comment: str, added_seconds: float = 0.0) -> Vote:
    """Change a vote, until a round that counts it is closed. The vote before is kept as a revision.

    Raises UserError (the answer is incomplete) or RoundClosed.
    """
    checked = checked_answer(vote.protocol, answer, comment)
    side = vote.left_response
    if side is None:
        raise UserError(_("An imported vote can't be changed here."))
    same = vote.answer == checked and vote.comment == comment
    with transaction.atomic():
        # In the order in which every vote locks them, so that no two wait for each other.
        _locked_items.all(example=vote.example_id, protocol=vote.protocol_id)
        if vote.is_practice:
            raise RoundClosed(PRACTICE_IS_FINAL)
        if not Vote.objects.filter(pk=vote.pk).exists():
            raise RoundClosed(_("This vote was put aside by the project, so it can't be changed."))
        if is_final(vote):
            raise RoundClosed(
                _("A round that counts this vote was closed, so the vote can't be changed.")
            )
        label = label_of(checked["overall"], side)
        if not same:
            record_item_event(
                vote.annotator,
                vote.item,
                CHANGED,
                before=vote.label or CANT_JUDGE,
                now=label or CANT_JUDGE,
            )
            VoteRevision.objects.create(
                annotation=vote,
                label=vote.label,
                answer=vote.answer,
                comment=vote.comment,
                active_seconds=vote.active_seconds,
                submitted_at=vote.submitted_at,
            )
        vote.answer, vote.comment = checked, comment[:MAX_COMMENT]
        vote.label = label
        vote.language = vote.language if same else (translation.get_language() or "")
        # A vote that was given blind stays blind as long as its answer is not changed.
        vote.unblinded = vote.unblinded or (not same and _has_seen_judge(vote.annotator))
        vote.active_seconds = (vote.active_seconds or 0.0) + clamp_seconds(added_seconds)
        # Not its slot: it may have been put aside and counted again since it was read.
        vote.save(update_fields=_EDITED)
        # A changed vote may give or take a majority in each round in which it counts.
        for slot in Slot.objects.filter(vote=vote).select_related("item"):
            settle(slot.item)
        if vote.item.selection.kind == Selection.Kind.CHECK:
            judge_attention(vote.item.round, vote.annotator)
    return vote


def is_final(vote: Vote) -> bool:
    """Return True if the vote can no longer be changed: a closed round counts it, or its person
    was told by it how they did."""
    if isinstance(vote, Repeat):
        return bool(vote.round.state == Round.State.CLOSED)
    if vote.is_practice:
        return True
    closed = Q(item__round__state=Round.State.CLOSED)
    return Slot.objects.filter(closed, vote=vote).exists()


def _recorded(draft: Draft) -> Vote | None:
    """Return the vote on this item, if any. Raises NotNeeded if another round has it."""
    vote: Vote | None = _votes.first(
        example=draft.item.example_id,
        protocol=draft.item.round.protocol_id,
        annotator=draft.annotator_id,
    )
    if vote is not None and vote.item_id != draft.item_id:
        release(draft)
        if vote.aside_at is None:
            raise NotNeeded(
                _(
                    "You already voted on this pair in another round. That vote counts here as "
                    "well, so this one was not added."
                )
            )
        raise NotNeeded(
            _(
                "You already voted on this pair in another round. That vote was put aside by the "
                "project, so this one was not added."
            )
        )
    return vote


@prepared
def _votes(example: Any, protocol: Any, annotator: Any) -> QuerySet[Vote]:
    """Find a vote. There is one at most: nobody votes twice on an example under one protocol."""
    return Vote.every.filter(example=example, protocol=protocol, annotator=annotator)


@prepared
def _locked_items(example: Any, protocol: Any) -> QuerySet[Item]:
    """The example's items wherever its votes count, locked in the order of their keys."""
    items = items_with_lock().filter(example=example, round__protocol=protocol)
    return items.order_by("pk")


def _store(draft: Draft, slot: Slot, unblinded: bool) -> Vote:
    item = draft.item
    locked = _locked_items.all(example=item.example_id, protocol=item.round.protocol_id)
    items = {each.pk: each for each in locked}
    # Asked again under the lock: somebody may have closed the round since the page was opened.
    if items[item.pk].round.state == Round.State.CLOSED:
        raise RoundClosed(_CLOSED)
    vote = Vote(
        slot=slot,
        item=item,
        example_id=item.example_id,
        protocol=item.round.protocol,
        annotator=draft.annotator,
        label=label_of(draft.answer["overall"], draft.left_response),
        answer=draft.answer,
        left_response=draft.left_response,
        comment=draft.comment,
        active_seconds=draft.active_seconds,
        unblinded=unblinded,
        language=translation.get_language() or "",
        submitted_at=timezone.now(),
        is_practice=item.round.kind in Round.PRACTICE,
    )
    insert_one(vote)
    if not _filled.count(slot=slot.pk, annotator=draft.annotator_id, vote=vote.pk):
        raise IntegrityError("the slot was filled in the same moment")
    settle_locked([items[item.pk]])
    if items[item.pk].round.repeat_percent:
        plan_repeat(vote, items[item.pk].round)
    if vote.is_practice:
        finish(items[item.pk].round, draft.annotator)
    # In practice the labels are known too, but failing there has its own consequence.
    elif items[item.pk].selection.kind == Selection.Kind.CHECK:
        judge_attention(items[item.pk].round, draft.annotator)
    # Last, since rules and practice look at this round alone.
    _count_in_other_rounds(vote)
    record_item_event(draft.annotator, item, VOTED)
    return vote


@prepared_update()
def _filled(slot: Any, annotator: Any, vote: Any) -> Changed:
    mine = Slot.objects.filter(pk=slot, annotator=annotator, vote=None)
    return mine, {"vote": vote, "lease_until": None}


def _count_in_other_rounds(vote: Vote) -> None:
    """Let the vote count in other open rounds of the same protocol that have the example.

    The rounds are looked up now that the items are locked. A round that opens later waits for this
    vote, and a round that opened while this vote waited for the locks is found.
    """
    others = _open_rounds.all(example=vote.example_id, protocol=vote.protocol_id)
    for round_ in others:
        if round_.pk != vote.item.round_id:
            count_vote_in(vote, round_)


@prepared
def _open_rounds(example: Any, protocol: Any) -> QuerySet[Round]:
    rounds = Round.objects.filter(items__example=example, protocol=protocol)
    return rounds.filter(kind=Round.Kind.ROUTED).exclude(state=Round.State.CLOSED).order_by("pk")


def _has_seen_judge(annotator: Annotator) -> bool:
    user = annotator.user
    if user is None:
        return False
    membership = _memberships.first(project=annotator.project_id, user=user.pk)
    # A superuser outside the project sees every page of it.
    return user.is_superuser if membership is None else membership.unblinded_at is not None


@prepared
def _memberships(project: Any, user: Any) -> QuerySet[Membership]:
    return Membership.objects.filter(project=project, user=user)


def decide(
    item: Item, user: AbstractUser, label: str, reason: str, *, made_for: str | None = None
) -> Adjudication:
    """Record a person's decision. The last one on an item holds; all are kept.

    Args:
        made_for: The last decision that the form showed, by `version_of`. Raises Overtaken if
            somebody decided since.
    """
    if label not in Label.values:
        raise UserError("Choose win, tie or lose of response 1.")
    if item.state == Item.State.OPEN:
        if item.round.state != Round.State.CLOSED:
            raise UserError(
                "This item is still waiting for votes, so there is nothing to decide yet."
            )
        raise UserError(
            "The round is closed and no vote on this item counts, so there is nothing to decide."
        )
    # A majority is final. A decision is only for items that people left open.
    if item.state == Item.State.COMPLETE and not item.adjudications.exists():
        raise UserError("This item is settled, so there is nothing to decide.")
    with transaction.atomic():
        # Locked, so that two people at once see each other's decision.
        Item.objects.select_for_update(no_key=True).only("pk").get(pk=item.pk)
        last = item.adjudications.order_by("-pk").first()
        now = (user.pk, label, reason.strip())
        if last is not None and (last.decided_by_id, last.label, last.reason) == now:
            # The same form sent twice, as by a second Enter.
            return last
        if last is not None and made_for not in (None, access.version_of(last.pk)):
            sentence = f"decided this ({last.get_label_display()}: {last.reason})"
            raise access.overtaken(last.decider, user, sentence, last.at)
        decision = Adjudication.objects.create(
            item=item,
            label=label,
            reason=reason.strip(),
            decided_by=user,
            decider=user.get_username(),
        )
        settle(item)
        first = FirstChoice.objects.filter(item=item, user=user).exclude(label="").first()
        chosen = {"first_choice": first.label, "left": first.left_response} if first else {}
        access.record_event(
            item.round.project, user, ADJUDICATED, item.example.external_id, label=label,
            reason=reason.strip(), **chosen,
        )  # fmt: skip
    return decision


def sides_for(item: Item, user: AbstractUser) -> FirstChoice:
    """Return which response this adjudicator sees on the left, drawn once for them and the item."""
    # Drawn from the round's seed, so that two requests at once draw the same.
    drawn = Random(f"decide:{item.round.seed}:{user.pk}:{item.pk}").choice((1, 2))
    first, _ = FirstChoice.objects.get_or_create(
        item=item, user=user, defaults={"left_response": drawn}
    )
    return first


def choose_first(item: Item, user: AbstractUser, choice: str) -> FirstChoice:
    """Record what an adjudicator says before they see the votes. It is never changed.

    Args:
        choice: left, tie or right, as they saw the responses.
    """
    if choice not in SIDES:
        raise UserError("Choose which response is better, or a tie.")
    seen = sides_for(item, user)
    label = label_of(choice, seen.left_response)
    with transaction.atomic():
        # The first choice was made blind. A second one, with the votes in view, would not be.
        unchosen = FirstChoice.objects.filter(pk=seen.pk, label="")
        if unchosen.update(label=label, chosen_at=timezone.now()):
            access.record_event(
                item.round.project,
                user,
                FIRST_CHOICE,
                item.example.external_id,
                label=label,
                left=seen.left_response,
            )
    seen.refresh_from_db()
    return seen


def withdraw(decision: Adjudication, user: AbstractUser) -> None:
    """Take one's own decision back, so that the item waits again. The audit trail keeps it.

    Raises UserError if it isn't theirs, or if somebody has decided since.
    """
    item = decision.item
    with transaction.atomic():
        Item.objects.select_for_update(no_key=True).only("pk").get(pk=item.pk)
        last = item.adjudications.order_by("-pk").first()
        if last is None or last.pk != decision.pk or last.decided_by_id != user.pk:
            raise UserError("Only your own last decision on an item can be taken back.")
        last.delete()
        settle(item)
        access.record_event(
            item.round.project,
            user,
            WITHDRAWN,
            item.example.external_id,
            label=decision.label,
            reason=decision.reason,
        )
