"""What is told where there is no pair: closed, paused, held by others, settled."""

import pytest
from django.utils import timezone

from annotation.models import Draft, Slot, Vote
from annotation.queue.queue import LEASE, claim_next
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from annotation.screen.hand import address_of
from annotation.votes.voting import record_vote
from tests.annotation.screen.posting import ALL, first_item, post, text_of
from tests.factories import make_annotator, make_examples


def test_an_ending_speaks_of_votes_only_where_there_are_some(ana, project, round_):
    ben = make_annotator(project, "ben")
    while isinstance(draft := claim_next(round_, ben), Draft):
        record_vote(draft, {"overall": "tie"})
    page = text_of(ana.get(address_of(round_)))
    assert "There is nothing left for you in this round." in page
    assert "You are done" not in page
    assert "stored" not in page
    changes.close(round_, None)
    assert "It takes no more votes." in (page := text_of(ana.get(address_of(round_))))
    assert "stored" not in page


@pytest.mark.parametrize(
    ("change", "title"),
    [(changes.pause, "This round is paused"), (changes.close, "This round is closed")],
)
def test_a_round_that_hands_out_nothing_says_so(ana, round_, change, title):
    token = first_item(ana, round_)
    change(round_, None)
    assert title in text_of(ana.get(address_of(round_)))
    assert title in text_of(ana.get(f"/annotate/{token}"))


def test_all_in_work_by_others_names_the_time(client, project, annotator, other_annotator):
    make_examples(project, 1)
    round_ = open_round(project, None, None, ALL)
    client.force_login(other_annotator)
    first_item(client, round_)
    client.force_login(annotator)
    page = text_of(client.get(address_of(round_)))
    until = Slot.objects.get().lease_until
    assert "working on all pairs" in page
    assert f'datetime="{until:%Y-%m-%dT%H:%M}' in page
    assert "Look again" in page


def test_a_round_for_others_and_a_full_share_say_so(client, project, annotator, other_annotator):
    make_examples(project, 2)
    ben = other_annotator.annotators.get()
    settings = RoundSettings(everything=True, votes=1, annotators=[ben], limit=1)
    round_ = open_round(project, None, None, settings)
    client.force_login(annotator)
    assert "assigned to you" in text_of(client.get(address_of(round_)))
    assert "Nothing to label" in text_of(client.get("/annotate/"))
    client.force_login(other_annotator)
    assert "0 of 1 done" in text_of(client.get("/annotate/"))
    post(client, first_item(client, round_), overall="tie")
    assert "done your share" in text_of(client.get(address_of(round_)))


def test_a_pair_that_others_completed_meanwhile_is_told_and_nothing_is_lost(
    client, project, annotator, other_annotator
):
    make_examples(project, 1)
    round_ = open_round(project, None, None, ALL)
    client.force_login(annotator)
    token = first_item(client, round_)
    Slot.objects.update(lease_until=timezone.now() - LEASE)
    client.force_login(other_annotator)
    post(client, first_item(client, round_), overall="right")
    client.force_login(annotator)
    assert post(client, token, "beat", script=True).status_code == 409
    answer = post(client, token, overall="left", comment="mine")
    assert answer.status_code == 409
    assert "all the votes it needs" in text_of(answer)
    assert "settled" in text_of(client.get(f"/annotate/{token}"))
    assert Vote.objects.count() == 1
    assert Draft.objects.get(token=token).comment == "mine"


def test_a_lease_that_ended_is_taken_up_again_when_nobody_else_came(ana, round_):
    token = first_item(ana, round_)
    Slot.objects.update(lease_until=timezone.now() - LEASE)
    assert ana.get(f"/annotate/{token}").status_code == 200
    slot = Slot.objects.get(annotator__isnull=False)
    assert slot.lease_until > timezone.now()
