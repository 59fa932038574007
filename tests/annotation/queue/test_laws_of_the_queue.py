"""The laws of the queue, through long stretches of work in random order: people come, vote, skip
and go, managers open, close, extend and decide. Each seed is one stretch, and can be repeated.

`make test` goes through one stretch, `make test-long` through all of them.
"""

import random
from contextlib import suppress
from decimal import Decimal

import pytest
from django.utils import timezone

from annotation.models import Annotator, Draft, Item, Round, Seat, Slot, Vote
from annotation.people.annotators import assign, come_back, leave_project, leave_round
from annotation.people.invitations import Terms, accept_invitation, invite
from annotation.people.personal_data import erase_person
from annotation.queue.queue import LEASE, claim_next, flag, skip, unskip
from annotation.queue.settling import count_earlier_votes, settle
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from annotation.screen.hand import take_up
from annotation.votes.voting import decide, edit_vote, record_vote
from judging.core.errors import UserError
from judging.projects.models import Membership
from tests.factories import (
    make_annotator,
    make_examples,
    make_member,
    make_project,
    make_run,
    make_user,
    make_verdict,
)

pytestmark = [pytest.mark.databases, pytest.mark.django_db]
STEPS = 120


class Team:
    """A project in the hands of a random draw. What is refused with a sentence changes nothing."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.project = make_project()
        self.owner = make_member(self.project, "owner")
        self.run = make_run(self.project)
        for example in make_examples(self.project, 5):
            make_verdict(self.run, example, self.draw.random())
        make_examples(self.project, 1, is_check=True, gold_label="win")
        for _ in range(4):
            make_annotator(self.project)
        self.open()

    def one(self, queryset):
        """A random row, if there is one."""
        found = list(queryset.order_by("pk"))
        return self.draw.choice(found) if found else None

    @property
    def present(self):
        people = Annotator.objects.filter(project=self.project, user__isnull=False, left_at=None)
        return people.order_by("pk")

    def round(self):
        return self.one(Round.objects.filter(project=self.project))

    def draft(self):
        """Something that somebody has on a screen, however old that page is."""
        drafts = Draft.objects.filter(annotator__in=self.present)
        return self.one(drafts.select_related("item__round__protocol", "annotator__user"))

    def answer(self):
        return {"overall": self.draw.choice(["left", "tie", "right"])}

    def open(self):
        if self.project.rounds.count() == 3:
            return
        votes, seed = self.draw.choice([1, 2, 3]), self.draw.randrange(1000)
        # Pairs that come again are no votes, so the laws hold with them as well.
        again = {"repeat_percent": self.draw.choice([0, 50]), "repeat_after": 1}
        ranked = RoundSettings(beta=Decimal(40), audit=1, votes=votes, seed=seed, **again)
        everything = RoundSettings(everything=True, votes=votes, seed=seed, **again)
        open_round(self.project, None, self.run, self.draw.choice([ranked, everything]))

    def claim(self):
        """Take the next pair, and vote on it, leave it lying, skip it or flag it."""
        round_, person = self.round(), self.one(self.present)
        draft = claim_next(round_, person)
        if not isinstance(draft, Draft):
            return
        what = self.draw.choice(["vote", "vote", "vote", "leave", "skip", "flag"])
        if what == "vote":
            record_vote(draft, self.answer())
        elif what == "skip":
            skip(draft)
        elif what == "flag":
            flag(draft, "odd")

    def vote_from_an_old_page(self):
        if draft := self.draft():
            record_vote(draft, self.answer())

    def edit(self):
        votes = Vote.objects.filter(item__round__project=self.project)
        votes = votes.select_related("item__round", "protocol", "annotator__user")
        if vote := self.one(votes.filter(annotator__user__isnull=False)):
            edit_vote(vote, self.answer(), "")

    def take_up_again(self):
        """Go back to a pair, skipped or left lying: never beyond one's limit."""
        draft = self.draft()
        if draft is None or Vote.objects.filter(item=draft.item_id, annotator=draft.annotator):
            return
        slots = Slot.objects.filter(round=draft.item.round_id, annotator=draft.annotator)
        limits = Seat.objects.filter(round=draft.item.round_id, annotator=draft.annotator)
        held, limit = slots.count(), limits.values_list("limit", flat=True).first()
        if self.draw.random() < 0.5:
            unskip(draft)
        if take_up(draft, timezone.now()) and limit is not None:
            assert slots.count() <= max(limit, held)

    def let_leases_end(self):
        """Whoever asks next finds what nobody holds any more."""
        round_ = self.round()
        unfilled = Slot.objects.filter(round=round_, vote=None, annotator__isnull=False)
        unfilled.update(lease_until=timezone.now() - LEASE)
        count_earlier_votes(round_)

    def stay_away(self):
        act = self.draw.choice([leave_round, come_back])
        act(self.round(), self.one(self.present))

    def remove(self):
        if self.present.count() > 2:
            person = self.one(self.present)
            leave_project(
                Membership.objects.get(project=self.project, user=person.user), self.owner
            )

    def erase(self):
        if self.present.count() > 2 and self.draw.random() < 0.4:
            person = self.one(self.present)
            erase_person(person.user, None, remove_votes=self.draw.random() < 0.5)

    def join(self):
        gone = Annotator.objects.filter(project=self.project, user__isnull=False)
        gone = self.one(gone.exclude(left_at=None).select_related("user"))
        if gone or self.present.count() < 5:
            accept_invitation(
                invite(self.project, None, Terms()), gone.user if gone else make_user()
            )

    def assign(self):
        people = list(self.present)
        named = self.draw.sample(people, min(len(people), self.draw.randint(0, 2)))
        assign(self.round(), None, named, limit=self.draw.choice([None, 1, 2, 4]))

    def decide(self):
        waiting = Item.objects.filter(round__project=self.project, state=Item.State.ADJUDICATE)
        if item := self.one(waiting.select_related("round")):
            decide(item, self.owner, "win", "because")

    def change_the_round(self):
        round_ = self.round()
        self.draw.choice(
            [
                lambda: changes.pause(round_, None),
                lambda: changes.resume(round_, None),
                lambda: changes.close(round_, None),
                lambda: changes.reopen(round_, None),
                lambda: changes.reopen(round_, None),
                lambda: changes.raise_votes(round_, None, round_.votes_per_item + 1),
                lambda: changes.extend(round_, None, Decimal(self.draw.choice([50, 70, 100]))),
            ]
        )()

    def one_step(self):
        seldom = [
            self.open,
            self.edit,
            self.take_up_again,
            self.vote_from_an_old_page,
            self.let_leases_end,
            self.stay_away,
            self.remove,
            self.erase,
            self.join,
            self.assign,
            self.decide,
            self.change_the_round,
        ]
        act = self.draw.choice([*seldom, *[self.claim] * 8])
        with suppress(UserError):
            act()
        return act.__name__


def held_by_law(item):
    """Exactly n places, each person at most once, and nobody asked for what they have answered."""
    slots = list(Slot.objects.filter(item=item).select_related("vote"))
    assert len(slots) == item.round.votes_per_item
    voters = [slot.vote.annotator_id for slot in slots if slot.vote]
    assert len(set(voters)) == len(voters)
    if item.round.state != Round.State.CLOSED:
        holders = {slot.annotator_id for slot in slots if not slot.vote}
        assert not holders & set(voters)


def settled(item):
    """A fresh look at the item's votes leaves it as it is."""
    before = item.state
    settle(item)
    # A decision stands, and a check is over once it was, whoever may have left since.
    stands = item.adjudications.exists() or item.selection.kind == "check"
    if stands and before == Item.State.COMPLETE:
        Item.objects.filter(pk=item.pk).update(state=before)
    else:
        assert item.state == before


@pytest.mark.system
@pytest.mark.parametrize(
    ("seed", "steps"),
    [(0, 60), *(pytest.param(seed, STEPS, marks=pytest.mark.long) for seed in range(5))],
)
def test_whatever_happens_the_votes_are_exactly_those_wanted(
    seed, steps, django_capture_on_commit_callbacks
):
    team, done = Team(seed), []
    for _ in range(steps):
        with django_capture_on_commit_callbacks(execute=True):
            done.append(team.one_step())
        items = Item.objects.filter(round__project=team.project)
        for item in items.select_related("round__project", "selection"):
            held_by_law(item)
            settled(item)
        for round_ in Round.objects.filter(project=team.project).exclude(state=Round.State.CLOSED):
            assert not count_earlier_votes(round_), done[-5:]
    assert Vote.objects.filter(item__round__project=team.project).count() > 3
