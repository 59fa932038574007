"""What a person reads about themselves, and how they have themselves erased."""

import json

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from annotation.models import Annotator, Erasure, Team, Vote
from annotation.people import personal_data
from annotation.people.personal_data import go_on_erasing, held_about, wake_erasures
from annotation.queue.queue import claim_next, flag
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import record_vote
from judging.core import waking
from tests.factories import make_annotator, make_examples

pytestmark = pytest.mark.django_db
# Rows that name a person, and tell no more of them than those that the file has.
IN_OTHER_ROWS = {
    "Erasure": "the wish to be erased", "FirstChoice": "of a decision",
    "MailSettings": "one row, which is shown",
    "PasswordLink": "a link that waits for them",
    "Preferences": "one row, which is shown",
    "RecoveryCode": "a hash of a code that only they have",
    "Reading": "that guidelines were read", "Seat": "of the rounds in which they voted",
    "Slot": "of a vote or draft",
}  # fmt: skip
# These name who made something for a project, or decided something about somebody else.
MADE = {"created_by", "made_by", "opened_by"}


@pytest.fixture
def ana(project):
    """Votes with a comment, and has flagged a pair."""
    make_examples(project, 3)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1, seed=5))
    ana, ben = make_annotator(project, "ana"), make_annotator(project, "ben")
    for person in (ana, ben):
        draft = claim_next(round_, person)
        record_vote(draft, {"overall": "left"}, comment=f"{person.name} thinks so")
    flag(claim_next(round_, ana), "odd")
    ana.user.set_password("correct horse battery")
    ana.user.save()
    return ana


def test_all_that_names_a_person_is_in_the_file(ana):
    shown = {rows.model for _, rows, *_ in personal_data._tables(ana.user)}
    naming = {
        relation.related_model
        for source in (User, Annotator)
        for relation in source._meta.related_objects
        if relation.field.name not in MADE and relation.related_model._meta.app_label in OURS
    }
    assert {model.__name__ for model in naming - shown} == IN_OTHER_ROWS.keys()


OURS = ("annotation", "judging")


def test_a_person_reads_what_is_theirs_and_stays_blind(client, ana):
    client.force_login(ana.user)
    page = client.get(reverse("own_data")).text
    assert "Vote</dt><dd>1 entry</dd>" in page
    assert "Flag</dt><dd>1 entry</dd>" in page
    Team.objects.create(owner=ana.user, name="Berlin")
    assert "Team that you made</dt><dd>1 entry</dd>" in client.get(reverse("own_data")).text
    text = client.get(reverse("own_data_file")).getvalue().decode()
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["about"] for row in rows] == [row["about"] for row in held_about(ana.user)]
    (vote,) = [row for row in rows if row["about"] == "vote"]
    assert (vote["project"], vote["round"], vote["comment"]) == ("vicuna", 1, "ana thinks so")
    assert vote["answer"]["overall"] == "left"
    for hidden in ("ben", "maple-7b", "birch-3b", '"e0"', '"win"', '"lose"'):
        assert hidden not in text


@pytest.mark.parametrize("remove", [False, True])
def test_a_person_is_logged_out_at_once_and_erased_by_a_worker(client, ana, remove, monkeypatch):
    woken = []
    monkeypatch.setattr(waking, "wake_on_commit", lambda *message: woken.append(message))
    client.force_login(ana.user)
    page = reverse("own_data")
    assert client.post(page, {"old_password": "guessed"}).status_code == 422
    assert not Erasure.objects.exists()
    sent = {"old_password": "correct horse battery"} | ({"remove_votes": "on"} if remove else {})
    assert "You are being erased." in client.post(page, sent).text
    assert client.get("/annotate/").status_code == 302
    asked = Erasure.objects.get()
    assert woken == [(waking.ERASE_PERSON, asked.pk)]
    go_on_erasing(asked.pk)
    assert not User.objects.filter(username="ana").exists()
    assert not Erasure.objects.exists()
    comments = Vote.objects.filter(annotator=ana.pk).values_list("comment", flat=True)
    assert list(comments) == ([] if remove else [""])
    assert "ana" not in Annotator.objects.get(pk=ana.pk).name
    # A message that comes twice does nothing more.
    go_on_erasing(asked.pk)


def test_a_lost_message_is_made_up_for(ana, monkeypatch):
    asked = Erasure.objects.create(user=ana.user, asked_at=ana.created_at)
    woken = []
    monkeypatch.setattr(waking, "wake", lambda *message: woken.append(message))
    wake_erasures()
    assert woken == [(waking.ERASE_PERSON, asked.pk)]


def test_the_only_owner_of_a_project_is_kept(client, owner, project):
    owner.set_password("correct horse battery")
    owner.save()
    client.force_login(owner)
    page = client.post(reverse("own_data"), {"old_password": "correct horse battery"})
    assert page.status_code == 422
    assert "only owner of vicuna" in page.text
    owner.refresh_from_db()
    assert owner.is_active
