"""Training and qualifications: who gets which pairs, what comes of them, and whom they let in."""

import threading
from decimal import Decimal

import pytest
from django.db import connection
from django.urls import reverse

from annotation.models import Draft, PracticeResult, Round, Seat, Slot, Vote
from annotation.people.crowds import set_up
from annotation.queue.queue import NoItem, claim_next
from annotation.queue.settling import possible_voters
from annotation.results.planner.planning import measured_minutes
from annotation.results.tables.exports import vote_rows
from annotation.results.tables.people import people_rows
from annotation.rounds import changes
from annotation.rounds.opening import Practice, RoundSettings, open_round, practice_of
from annotation.rounds.practice import practice_standing, rounds_after
from annotation.screen.hand import address_of, list_address_of
from annotation.votes.aside import put_aside
from annotation.votes.voting import RoundClosed, edit_vote, record_vote
from judging.core.errors import UserError
from judging.projects.models import AuditEvent
from tests.annotation.screen.posting import first_item, post, text_of
from tests.factories import make_annotator, make_examples, make_project

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
WHY = "Left **says** where it is from. <script>alert(1)</script> مرحبا"


@pytest.fixture
def ana(project):
    return make_annotator(project, "ana")


def pool(project, check_for, n, **fields):
    fields = {"gold_label": "win", "explanation": WHY} | fields
    return make_examples(project, n, is_check=True, check_for=check_for, **fields)


def training(project, n=3, **fields):
    pool(project, "training", n)
    settings = RoundSettings(practice=Practice("training"), seed=1, **fields)
    return open_round(project, None, None, settings)


def qualification(project, pairs=2, tries=2, mark=50, pool_of=None, **fields):
    pool(project, "qualification", pool_of or pairs * tries)
    practice = Practice("qualification", pairs, Decimal(mark), tries)
    return open_round(project, None, None, RoundSettings(practice=practice, seed=1, **fields))


def real_round(project, after, n=2, **fields):
    make_examples(project, n)
    settings = RoundSettings(everything=True, votes=1, seed=1, after=after, **fields)
    return open_round(project, None, None, settings)


def answer(draft, right=True):
    side = draft.left_response if right else 3 - draft.left_response
    return record_vote(draft, {"overall": "left" if side == 1 else "right"})


def practise(round_, annotator, *right, again=True):
    """Answer as said, then return what is handed out."""
    for is_right in right:
        draft = claim_next(round_, annotator, again=again)
        assert isinstance(draft, Draft), draft
        answer(draft, is_right)
    return claim_next(round_, annotator)


def results(round_):
    rows = PracticeResult.objects.filter(round=round_).order_by("annotator", "number")
    return list(rows.values_list("number", "n", "right", "passed", "is_over"))


def test_everybody_gets_each_training_pair_once_and_goes_on_to_the_real_round(project, ana):
    bob = make_annotator(project, "bob")
    round_ = training(project)
    real = real_round(project, round_)
    assert claim_next(real, ana) == NoItem("first")
    assert practise(round_, ana, True, False, True) == NoItem("trained")
    assert practise(round_, bob, False, False, False) == NoItem("trained")
    assert results(round_) == [(1, 3, 2, True, True), (1, 3, 0, True, True)]
    assert Slot.objects.filter(round=round_).count() == 6
    assert isinstance(claim_next(real, ana), Draft)
    assert rounds_after(round_) == [real]
    standing = practice_standing(round_)
    assert [(one.annotator, one.answered, one.state) for one in standing.people] == [
        (ana, 3, "passed"),
        (bob, 3, "passed"),
    ]
    event = AuditEvent.objects.filter(action="training finished").first()
    assert event.detail["right"] == 2
    assert event.detail["pairs"] == 3


def test_a_try_that_is_not_passed_leads_to_another_with_other_pairs(project, ana):
    round_ = qualification(project, pairs=2, tries=2, mark=100)
    real = real_round(project, round_)
    assert practise(round_, ana, True, False) == NoItem("try_again")
    first = set(Vote.every.values_list("example", flat=True))
    assert claim_next(real, ana) == NoItem("first")
    assert practise(round_, ana, True, True) == NoItem("qualified")
    second = set(Vote.every.values_list("example", flat=True)) - first
    assert len(second) == 2
    assert results(round_) == [(1, 2, 1, False, False), (2, 2, 2, True, True)]
    assert isinstance(claim_next(real, ana), Draft)


def test_without_a_try_left_nothing_opens_and_nobody_waits_for_the_person(project, ana):
    round_ = qualification(project, pairs=2, tries=1)
    real = real_round(project, round_)
    assert possible_voters(real) == {ana.pk}
    assert practise(round_, ana, False, False) == NoItem("not_passed")
    assert claim_next(round_, ana, again=True) == NoItem("not_passed")
    assert claim_next(real, ana) == NoItem("first")
    assert possible_voters(real) == set()
    # A seat that an owner gives doesn't open it either.
    Seat.objects.create(round=real, annotator=ana)
    assert claim_next(real, ana) == NoItem("first")


def test_the_pass_mark_is_met_exactly_and_cant_judge_is_not_right(project, ana):
    project.cant_judge = True
    project.save()
    round_ = qualification(project, pairs=3, tries=1, mark="66.6")
    practise(round_, ana, True, True)
    record_vote(claim_next(round_, ana), {"overall": "cant_judge"}, comment="It is cut off.")
    assert results(round_) == [(1, 3, 2, True, True)]


def test_practice_enters_no_figure_but_its_own_and_is_paid_apart(project, ana):
    round_, real = training(project), None
    practise(round_, ana, True, False, True)
    Vote.every.update(active_seconds=30.0)
    assert not Vote.objects.exists()
    assert Vote.every.count() == 3
    assert measured_minutes(project) == (None, 0)
    assert list(vote_rows(project, names=False)) == []
    (row,) = people_rows(project, Vote.every.all(), names=False, background=False)
    assert (row["votes"], row["active_seconds"], row["usd"], row["checks"]) == (0, None, 0, 0)
    assert (row["training_n"], row["training_right"]) == (3, 2)
    assert (row["practice_seconds"], row["practice_usd"] > 0) == (90.0, True)
    assert (row["qualification_tries"], row["qualified"]) == (0, None)
    with pytest.raises(UserError, match="gave no vote"):
        put_aside(round_, ana, None, "Too fast.")
    # Real rounds take the attention checks alone.
    pool(project, "", 1)
    real = real_round(project, None)
    assert set(real.items.values_list("example__check_for", flat=True)) == {""}
    assert real.items.count() == 3


def test_an_answer_is_final_and_a_closed_round_takes_none(project, ana):
    round_ = training(project)
    draft = claim_next(round_, ana)
    vote = answer(draft, right=False)
    assert record_vote(draft, {"overall": "tie"}) == vote
    with pytest.raises(RoundClosed, match="can't be changed"):
        edit_vote(vote, {"overall": "tie"}, "")
    changes.close(round_, None)
    assert claim_next(round_, ana) == NoItem("closed")
    changes.reopen(round_, None)
    assert practise(round_, ana, True, True) == NoItem("trained")
    with pytest.raises(UserError, match="can't ask for more votes"):
        changes.raise_votes(round_, None, 3)


def test_who_answered_all_pairs_before_is_trained_and_a_used_up_pool_says_so(project, ana):
    round_ = training(project)
    practise(round_, ana, True, True, True)
    changes.close(round_, None)
    again = open_round(project, None, None, RoundSettings(practice=Practice("training")))
    assert claim_next(again, ana) == NoItem("trained")
    first = qualification(project, pairs=2, tries=1)
    practise(first, ana, False, False)
    changes.close(first, None)
    practice = Practice("qualification", 1)
    second = open_round(project, None, None, RoundSettings(practice=practice))
    assert claim_next(second, ana) == NoItem("used_up")


@pytest.mark.parametrize(
    ("practice", "fields", "said"),
    [
        (Practice("qualification", 3, Decimal(80), 2), {}, "6 are needed"),
        (Practice("qualification"), {}, "how many pairs"),
        (Practice("qualification", 2, Decimal(0)), {}, "pass mark"),
        (Practice("qualification", 2, Decimal(80), 0), {}, "tries"),
        (Practice("training", tries=2), {}, "training has 1"),
        (Practice("training", 0), {}, "at least 1 pair"),
        (Practice("import"), {}, "Choose training"),
        (Practice("training"), {"everything": True}, "no β"),
        (Practice("training"), {"limit": 2}, "no β"),
    ],
)
def test_what_makes_no_practice_is_refused_in_words(project, practice, fields, said):
    pool(project, "training", 1)
    pool(project, "qualification", 4)
    with pytest.raises(UserError, match=said):
        open_round(project, None, None, RoundSettings(practice=practice, **fields))
    assert not Round.every.exists()


def test_rounds_open_after_practice_of_the_project_alone_and_take_no_crowd(project, ana):
    round_ = training(project)
    with pytest.raises(UserError, match="is not closed"):
        open_round(project, None, None, RoundSettings(practice=Practice("training")))
    other = training(make_project())
    for wrong in (other, real_round(project, None)):
        with pytest.raises(UserError, match="nobody can pass it"):
            real_round(project, wrong)
    for no_crowd in (round_, real_round(project, round_)):
        with pytest.raises(UserError, match="can't have a crowd link"):
            set_up(no_crowd, None, {})
    assert practice_of(round_) == Practice("training")


@pytest.mark.django_db(transaction=True)
def test_two_tabs_that_finish_at_once_make_one_result(project, ana):
    round_ = qualification(project, pairs=2, tries=2, mark=100)
    one = claim_next(round_, ana)
    two = claim_next(round_, ana, ahead_of=one.token)
    both = threading.Barrier(2)

    def finish(draft):
        try:
            both.wait(10)
            answer(draft)
            claim_next(round_, ana, again=True)
        finally:
            connection.close()

    tabs = [threading.Thread(target=finish, args=(draft,)) for draft in (one, two)]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()
    assert results(round_) == [(1, 2, 2, True, True)]


@pytest.mark.django_db(transaction=True)
def test_two_tabs_that_begin_at_once_begin_one_try(project, ana):
    round_ = qualification(project, pairs=2, tries=2)
    both = threading.Barrier(4)

    def begin():
        try:
            both.wait(10)
            claim_next(round_, ana)
        finally:
            connection.close()

    tabs = [threading.Thread(target=begin) for _ in range(4)]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()
    assert Slot.objects.filter(round=round_).count() == 2


def test_the_screen_tells_after_the_vote_and_never_before(client, project, annotator):
    round_ = training(project, 2)
    real_round(project, round_)
    client.force_login(annotator)
    listed = text_of(client.get("/annotate/"))
    assert "opens for you after another round" in listed
    token = first_item(client, round_)
    before = [client.get(f"/annotate/{token}"), client.get(f"/annotate/{token}/ahead")]
    before += [client.get(f"/annotate/{token}/texts"), client.get(list_address_of(round_))]
    for page in before:
        assert page.status_code == 200
        assert b"<strong>says" not in page.content
        assert b"known answer" not in page.content
    assert f"/annotate/{token}/skip".encode() not in before[0].content
    assert post(client, token, "skip").status_code == 422
    draft = Draft.objects.get(token=token)
    side = "left" if draft.left_response == 2 else "right"
    told = post(client, token, script=True, overall=side)
    said = text_of(told)
    assert "Not right." in said
    assert "<strong>says</strong>" in said
    assert "<script>" not in said
    assert 'dir="auto"' in said
    # Posted once more: the same words, and no other answer is taken.
    assert "Not right." in text_of(post(client, token, script=True, overall=side))
    changed = post(client, token, script=True, overall="tie")
    assert changed.status_code == 409
    assert b"can't be changed" in changed.content
    # Without the script, the page of the pair says it.
    token = first_item(client, round_)
    draft = Draft.objects.get(token=token)
    side = "left" if draft.left_response == 1 else "right"
    went = post(client, token, overall=side)
    page = text_of(client.get(went.url))
    assert "Right." in page
    assert "<strong>says</strong>" in page
    history = text_of(client.get(list_address_of(round_)))
    assert "Not right." in history
    assert history.count("<strong>says</strong>") == 2
    ended = text_of(client.get(address_of(round_)))
    assert "Training is done" in ended
    assert "Right answers: 1 of 2" in ended
    assert "Go on" in ended


def test_the_screen_leads_through_a_qualification(client, project, annotator):
    round_ = qualification(project, pairs=1, tries=2)
    real = real_round(project, round_)
    client.force_login(annotator)
    assert "comes first" in text_of(client.get(address_of(real)))
    token = first_item(client, round_)
    side = "left" if Draft.objects.get(token=token).left_response == 2 else "right"
    said = text_of(post(client, token, script=True, overall=side))
    assert "right" not in said.lower().replace("copyright", "")
    page = text_of(client.get(address_of(round_)))
    assert "Not passed yet" in page
    assert "You have 1 more try" in page
    assert "Right answers: 0 of 1" in page
    went = client.get(f"{address_of(round_)}?again=1")
    token = went.url.split("/")[2]
    side = "left" if Draft.objects.get(token=token).left_response == 1 else "right"
    post(client, token, overall=side)
    assert "You passed" in text_of(client.get(address_of(round_)))
    assert client.get(address_of(real)).status_code == 302


def test_a_stranger_finds_no_training(client, other_annotator, outsider, project):
    round_ = training(project)
    client.force_login(outsider)
    for address in (address_of(round_), reverse("round", args=[project.slug, round_.number])):
        assert client.get(address).status_code == 404
