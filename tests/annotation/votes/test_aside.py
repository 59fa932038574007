"""Putting votes aside: what no longer counts, what stays, and that it can be undone."""

import csv
import io
from contextlib import suppress
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from django.utils import timezone

from annotation.models import CrowdSubmission, Draft, Intervention, Item, Round, Slot, Vote
from annotation.people import crowds
from annotation.people.annotators import assign, voters_of
from annotation.people.crowds import PanelIds
from annotation.people.personal_data import erase_annotator
from annotation.queue.queue import NoItem, claim_next, skip
from annotation.results.merge.final_labels import merged
from annotation.results.tables.exports import ExportRequest, export
from annotation.rounds.changes import close, reopen
from annotation.rounds.opening import RoundSettings, open_round
from annotation.rounds.progress import interventions_in, round_progress
from annotation.votes import aside
from annotation.votes.agreement import RoundAgreement
from annotation.votes.imports import import_votes
from annotation.votes.voting import NotNeeded, RoundClosed, edit_vote, record_vote
from judging.core.errors import UserError
from judging.projects.access import project_for
from judging.projects.models import AuditEvent, Membership, Role
from tests.annotation.crowd import SECRET, set_up
from tests.factories import (
    make_annotator,
    make_examples,
    make_member,
    make_project,
    make_run,
    make_user,
    make_verdict,
    make_vote,
)
from tests.together import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
WHY = "Votes left on every pair."


@pytest.fixture
def round_(project):
    run = make_run(project)
    for example in make_examples(project, 3):
        make_verdict(run, example, 0.5)
    return open_round(project, None, run, RoundSettings(everything=True, votes=2, seed=1))


@pytest.fixture
def ana(project):
    return make_annotator(project, "ana")


@pytest.fixture
def ben(project):
    return make_annotator(project, "ben")


@pytest.fixture
def voted(round_, ana, ben):
    """Both voted on all three pairs: ana lose, ben win, so that none has a majority."""
    for item in items(round_):
        make_vote(item, ana, "lose")
        make_vote(item, ben, "win")
    return round_


def items(round_):
    found = Item.objects.filter(round=round_).select_related("round__protocol", "example")
    return list(found.order_by("example"))


def states(round_):
    return [item.state for item in items(round_)]


def rows_of(round_, what):
    data = b"".join(export(round_.project, round_.run, None, ExportRequest(what=what)))
    return list(csv.DictReader(io.StringIO(data.decode())))


def event(round_, action):
    return AuditEvent.objects.filter(project=round_.project, action=action).latest("pk")


def test_votes_put_aside_leave_labels_agreement_and_exports(voted, ana):
    assert aside.put_aside(voted, ana, None, WHY) == 3
    assert [row["n_votes"] for row in rows_of(voted, "labels")] == ["1"] * 3
    assert {row["annotator"] for row in rows_of(voted, "votes")} == {"annotator-2"}
    assert {row["example_votes_n"] for row in rows_of(voted, "votes")} == {"1"}
    assert [one.annotator.name for one in RoundAgreement(voted).records] == ["ben"]
    rules = {one.rule for one in merged(voted.project, voted.run)}
    assert rules == {"the judge's label: 1 of 2 votes so far; 1 put aside"}


def test_their_pairs_go_to_others_and_not_to_the_same_person(voted, ana, ben):
    cleo = make_annotator(voted.project, "cleo")
    assert states(voted) == [Item.State.ADJUDICATE] * 3
    aside.put_aside(voted, ana, None, WHY)
    assert states(voted) == [Item.State.OPEN] * 3
    assert isinstance(claim_next(voted, ana), NoItem)
    assert isinstance(claim_next(voted, ben), NoItem)
    for _ in range(3):
        draft = claim_next(voted, cleo)
        # Ana isn't told to wait for a pair that she would not get.
        assert claim_next(voted, ana) == NoItem("done")
        record_vote(draft, {"overall": "left" if draft.left_response == 1 else "right"})
    assert claim_next(voted, cleo) == NoItem("done")
    assert states(voted) == [Item.State.COMPLETE] * 3


def test_what_they_cost_stays(voted, ana):
    before, labels = round_progress(voted), rows_of(voted, "labels")
    aside.put_aside(voted, ana, None, WHY)
    after = round_progress(voted)
    assert (after.cost, after.seconds) == (before.cost, before.seconds)
    assert (after.votes_given, after.n_aside) == (3, 3)
    assert {one.annotator.name: one.cost for one in after.people} == {
        one.annotator.name: one.cost for one in before.people
    }
    paid = [row["human_usd"] for row in labels]
    assert [row["human_usd"] for row in rows_of(voted, "labels")] == paid
    (person,) = [row for row in rows_of(voted, "people") if row["annotator"] == "annotator-1"]
    assert (person["votes"], person["votes_aside"], person["agreement_n"]) == ("3", "3", "0")
    assert float(person["usd"]) > 0


def test_the_trail_says_who_and_why(voted, ana, owner):
    aside.put_aside(voted, ana, owner, WHY)
    put = event(voted, "votes put aside")
    assert (put.actor, put.subject) == (owner.username, f"round {voted.number}")
    assert put.detail == {
        "annotator": "annotator-1", "votes": 3, "reason": WHY, "had_seen_judge": False,
    }  # fmt: skip
    aside.count_again(voted, ana, owner)
    again = event(voted, "votes counted again")
    assert again.detail == {"annotator": "annotator-1", "votes": 3, "still_aside": 0}
    Membership.objects.filter(user=owner).update(unblinded_at=timezone.now())
    aside.put_aside(voted, ana, owner, WHY)
    assert event(voted, "votes put aside").detail["had_seen_judge"] is True


def test_the_trail_knows_what_a_superuser_saw_who_is_no_member(voted, ana):
    sue = make_user("sue", is_superuser=True)
    aside.put_aside(voted, ana, sue, WHY)
    assert event(voted, "votes put aside").detail["had_seen_judge"] is False
    aside.count_again(voted, ana, sue)
    project_for(sue, voted.project.slug, shows_judge=True, is_told=True)
    aside.put_aside(voted, ana, sue, WHY)
    assert event(voted, "votes put aside").detail["had_seen_judge"] is True


def test_counting_them_again_gives_back_what_was(voted, ana):
    before = rows_of(voted, "labels"), states(voted), slots_of(voted)
    aside.put_aside(voted, ana, None, WHY)
    assert (rows_of(voted, "labels"), states(voted)) != before[:2]
    assert aside.count_again(voted, ana, None) == aside.CountedAgain(3, 0)
    assert (rows_of(voted, "labels"), states(voted), slots_of(voted)) == before
    assert not interventions_in(voted).exists()
    with pytest.raises(UserError, match="is put aside"):
        aside.count_again(voted, ana, None)


def slots_of(round_):
    slots = Slot.objects.filter(round=round_).order_by("item", "index")
    return list(slots.values_list("item", "index", "annotator", "vote", "annotation"))


def test_a_vote_stays_aside_where_others_gave_all_votes(voted, ana):
    cleo = make_annotator(voted.project, "cleo")
    aside.put_aside(voted, ana, None, WHY)
    first, *_ = items(voted)
    make_vote(first, cleo, "tie")
    assert aside.count_again(voted, ana, None) == aside.CountedAgain(2, 1)
    votes = Slot.objects.filter(round=voted, vote__isnull=False).values_list("item", flat=True)
    assert sorted(votes) == sorted([item.pk for item in items(voted)] * 2)
    assert interventions_in(voted).get().n_votes == 1


def test_votes_put_aside_twice_are_counted_once(voted, ana):
    aside.put_aside(voted, ana, None, WHY)
    with pytest.raises(UserError, match="nothing to put aside"):
        aside.put_aside(voted, ana, None, WHY)
    assert round_progress(voted).n_aside == 3


def test_a_reason_is_needed(voted, ana):
    with pytest.raises(UserError, match="Say why"):
        aside.put_aside(voted, ana, None, "  ")
    with pytest.raises(UserError, match="2001 characters"):
        aside.put_aside(voted, ana, None, "x" * 2001)
    assert not Vote.every.filter(aside_at__isnull=False).exists()


def test_another_round_that_counted_the_votes_loses_and_regains_them(voted, ana):
    other = open_round(voted.project, None, None, RoundSettings(everything=True, votes=2, seed=2))
    given = {"round": other, "vote__annotator": ana}
    assert Slot.objects.filter(**given).count() == 3
    aside.put_aside(voted, ana, None, WHY)
    assert not Slot.objects.filter(**given).exists()
    assert states(other) == [Item.State.OPEN] * 3
    assert round_progress(other).n_aside == 0
    aside.count_again(voted, ana, None)
    assert Slot.objects.filter(**given).count() == 3


def test_votes_given_in_another_round_stay(voted, ana):
    other = open_round(voted.project, None, None, RoundSettings(everything=True, votes=2, seed=2))
    with pytest.raises(UserError, match="no vote in round 2 that counts"):
        aside.put_aside(other, ana, None, WHY)
    assert Slot.objects.filter(round=other, vote__annotator=ana).count() == 3


def test_a_closed_round_says_what_it_lacks_and_can_be_reopened(voted, ana, ben):
    close(voted, None)
    aside.put_aside(voted, ana, None, WHY)
    voted.refresh_from_db()
    found = round_progress(voted)
    assert (found.missing, found.n_lacking) == (3, 3)
    # One vote is left, and it is a majority.
    assert states(voted) == [Item.State.COMPLETE] * 3
    aside.put_aside(voted, ben, None, WHY)
    assert states(voted) == [Item.State.OPEN] * 3
    assert {one.source for one in merged(voted.project, voted.run)} == {"judge"}
    reopen(voted, None)
    cleo = make_annotator(voted.project, "cleo")
    assert isinstance(claim_next(Round.objects.get(pk=voted.pk), cleo), Draft)


def test_imported_votes_can_be_put_aside(project, tmp_path):
    make_examples(project, 1)
    file = tmp_path / "votes.csv"
    file.write_text("external_id,label,annotator\ne0,win,zoe\ne0,lose,yan\ne0,lose,xia\n")
    import_votes(project, None, file)
    round_ = Round.objects.get(kind=Round.Kind.IMPORT)
    zoe = project.annotators.get(name="zoe")
    aside.put_aside(round_, zoe, None, WHY)
    assert [one.people.counts["win"] for one in merged(project, None)] == [0]
    assert import_votes(project, None, file).known == 3
    aside.count_again(round_, zoe, None)
    assert [one.people.counts["win"] for one in merged(project, None)] == [1]
    with pytest.raises(UserError, match="nobody can be stopped in it"):
        aside.put_aside(round_, zoe, None, WHY, stop=True)


def test_votes_of_other_rounds_fill_no_place_of_an_import(project, ana, tmp_path):
    make_examples(project, 1)
    file = tmp_path / "votes.csv"
    file.write_text("external_id,label,annotator\ne0,win,zoe\n")
    import_votes(project, None, file)
    imported = Round.objects.get(kind=Round.Kind.IMPORT)
    zoe = project.annotators.get(name="zoe")
    here = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=1))
    make_vote(items(here)[0], ana, "lose")
    aside.put_aside(imported, zoe, None, WHY)
    assert not Slot.objects.filter(round=imported, vote__isnull=False).exists()
    aside.put_aside(here, ana, None, WHY)
    aside.count_again(here, ana, None)
    assert not Slot.objects.filter(round=imported, vote__isnull=False).exists()
    aside.count_again(imported, zoe, None)
    assert Slot.objects.get(round=imported).vote.annotator == zoe
    assert Slot.objects.filter(round=here, vote__isnull=False).count() == 2


def test_another_closed_round_counts_again_what_it_counted_and_nothing_more(voted, ana):
    settings = RoundSettings(everything=True, votes=3, seed=2)
    counted = open_round(voted.project, None, None, settings)
    close(counted, None)
    later = make_annotator(voted.project, "cleo")
    reopened = open_round(voted.project, None, None, settings)
    for item in items(reopened):
        make_vote(item, later, "tie")
    aside.put_aside(reopened, later, None, WHY)
    aside.put_aside(voted, ana, None, WHY)
    assert Slot.objects.filter(round=counted, vote__isnull=False).count() == 3
    aside.count_again(voted, ana, None)
    aside.count_again(reopened, later, None)
    there = Slot.objects.filter(round=counted, vote__isnull=False)
    assert set(there.values_list("vote__annotator__name", flat=True)) == {"ana", "ben"}
    assert there.count() == 6


@pytest.mark.django_db(transaction=True)
def test_while_others_vote_no_item_gets_more_than_its_votes(project):
    """One person's votes are put aside and counted again while others label the same pairs."""
    make_examples(project, 6)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=1))
    ana, *others = [make_annotator(project, name) for name in ("ana", "ben", "cleo", "dan")]
    for item in items(round_):
        make_vote(item, ana, "win")

    def act(number):
        if number == 0:
            aside.put_aside(round_, ana, None, WHY)
            return aside.count_again(round_, ana, None)
        person = others[number - 1]
        found = Round.objects.select_related("protocol", "project").get(pk=round_.pk)
        for _ in range(100):
            if not isinstance(draft := claim_next(found, person), Draft):
                return None
            with suppress(UserError):
                record_vote(draft, {"overall": "left"})
        raise AssertionError("a person gets items without an end")

    outcomes = at_once(act, 4)
    assert [one for one in outcomes if isinstance(one, Exception)] == []
    for item in items(round_):
        filled = Slot.objects.filter(item=item, vote__isnull=False)
        assert (Slot.objects.filter(item=item).count(), filled.count()) in {(2, 1), (2, 2)}
        assert Vote.objects.filter(item=item).count() == filled.count()
        assert (item.state == Item.State.OPEN) == (filled.count() < 2)


def test_a_worker_goes_on_where_a_process_was_killed(voted, ana):
    long_ago = timezone.now() - timedelta(minutes=5)
    made = Intervention.objects.create(
        round=voted, annotator=ana, kind="aside", reason=WHY, actor="olga", is_due=True
    )
    aside.carry_out_due()
    assert aside.votes_that_count(voted, ana).count() == 3
    Intervention.objects.filter(pk=made.pk).update(at=long_ago)
    aside.carry_out_due()
    assert aside.standing_of(voted, ana).n_aside == 3
    made.refresh_from_db()
    assert (made.is_due, made.n_votes) == (False, 3)


def test_a_stopped_person_gets_nothing_until_they_are_let_go_on(round_, ana, ben):
    draft = claim_next(round_, ana)
    record_vote(draft, {"overall": "left"})
    held = claim_next(round_, ana)
    aside.put_aside(round_, ana, None, WHY, stop=True)
    assert not Slot.objects.filter(annotator=ana).exists()
    assert claim_next(round_, ana) == NoItem("stopped")
    with pytest.raises(RoundClosed, match="You get no more pairs"):
        record_vote(held, {"overall": "left"})
    assert ana.pk not in voters_of(round_)[0]
    # Assigning the round to somebody else does not let them in again.
    assign(round_, None, [ben])
    assign(round_, None, [])
    assert claim_next(round_, ana) == NoItem("stopped")
    aside.let_go_on(round_, ana, None)
    assert isinstance(claim_next(round_, ana), Draft)
    with pytest.raises(UserError, match="is not stopped"):
        aside.let_go_on(round_, ana, None)


def test_nobody_waits_for_whose_vote_was_put_aside(project, ana, ben):
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=1))
    make_vote(items(round_)[0], ana, "win")
    aside.put_aside(round_, ana, None, WHY)
    assert round_progress(round_).out_of_reach == 1
    skip(claim_next(round_, ben))
    assert states(round_) == [Item.State.ADJUDICATE]


def test_nobody_waits_in_another_round_for_whose_vote_was_put_aside(project, ana, ben):
    make_examples(project, 1)
    settings = RoundSettings(everything=True, votes=2, seed=1)
    first = open_round(project, None, None, settings)
    make_vote(items(first)[0], ana, "win")
    second = open_round(project, None, None, settings)
    aside.put_aside(first, ana, None, WHY)
    assert (states(second), round_progress(second).out_of_reach) == ([Item.State.OPEN], 1)
    assert claim_next(second, ana) == NoItem("done")
    skip(claim_next(second, ben))
    assert states(second) == [Item.State.ADJUDICATE]
    # A round that asks something else is answered by both.
    project.question_asked = "Which is safer?"
    project.save()
    other = open_round(project, None, None, settings)
    assert round_progress(other).out_of_reach == 0
    skip(claim_next(other, ben))
    assert states(other) == [Item.State.OPEN]


def test_a_vote_that_is_put_aside_can_not_be_changed(round_, ana):
    vote = record_vote(claim_next(round_, ana), {"overall": "left"})
    aside.put_aside(round_, ana, None, WHY)
    with pytest.raises(RoundClosed, match="put aside"):
        edit_vote(vote, {"overall": "right"}, "")


def test_nobody_is_told_that_a_vote_counts_here_which_was_put_aside(project, ana):
    make_examples(project, 1)
    settings = RoundSettings(everything=True, votes=1, seed=1)
    first, second = (open_round(project, None, None, settings) for _ in range(2))
    in_first, in_second = claim_next(first, ana), claim_next(second, ana)
    record_vote(in_first, {"overall": "left"})
    aside.put_aside(first, ana, None, WHY)
    with pytest.raises(NotNeeded, match="That vote was put aside by the project"):
        record_vote(in_second, {"overall": "left"})


def test_an_edit_that_waited_while_a_vote_was_counted_again_keeps_its_slot(round_, ana):
    vote = record_vote(claim_next(round_, ana), {"overall": "left"})
    before = slots_of(round_)
    aside.put_aside(round_, ana, None, WHY)
    read_before = Vote.every.select_related("item__round", "protocol").get(pk=vote.pk)
    aside.count_again(round_, ana, None)
    edit_vote(read_before, {"overall": "right"}, "")
    assert slots_of(round_) == before
    assert Vote.objects.get(pk=vote.pk).answer == {"overall": "right"}


def test_their_own_list_says_it(client, round_, ana):
    draft = claim_next(round_, ana)
    record_vote(draft, {"overall": "left"})
    aside.put_aside(round_, ana, None, WHY)
    client.force_login(ana.user)
    page = client.get(reverse("annotate_item", args=[draft.token]))
    assert "This vote was put aside" in page.text
    own = client.get(page.context["own_url"]).text
    assert "A vote that was put aside doesn't count and can't be changed." in own
    assert '<span class="state">put aside</span>' in own
    assert WHY not in own


def test_erasing_a_person_erases_why(voted, ana):
    aside.put_aside(voted, ana, None, WHY)
    erase_annotator(ana, None)
    assert event(voted, "votes put aside").detail["reason"] == ""
    assert Intervention.objects.get().reason == ""
    assert aside.standing_of(voted, ana).n_aside == 3
    erase_annotator(ana, None, remove_votes=True)
    assert not Vote.every.filter(annotator=ana).exists()


def test_votes_of_rejected_submissions_are_put_aside_in_one_step(client, project, owner):
    make_examples(project, 2)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2))
    link = set_up(round_, owner)
    for worker in ("w1", "w2"):
        came = crowds.begin(link, PanelIds(worker, "study", SECRET), {})
        record_vote(claim_next(round_, came.annotator), {"overall": "left"})
    client.force_login(owner)
    marks = reverse("round_crowd_marks", args=[project.slug, round_.number])

    def upload(text, **more):
        file = io.BytesIO(text.encode())
        file.name = "marks.csv"
        return client.post(marks, {"file": file} | more, follow=True).text

    said = upload("worker_id,status\nw1,rejected\n")
    assert "Votes of 1 rejected submission still count." in said
    said = client.post(
        reverse("round_crowd_aside", args=[project.slug, round_.number]), follow=True
    ).text
    assert "1 vote put aside." in said
    assert "rejected submission still" not in said
    assert "No vote of a rejected submission counts" not in said
    said = client.post(
        reverse("round_crowd_aside", args=[project.slug, round_.number]), follow=True
    ).text
    assert "No vote of a rejected submission counts. Nothing was changed." in said
    said = upload("worker_id,status\nw2,rejected\n", aside="on")
    assert "1 vote of rejected submissions put aside." in said
    assert not Vote.objects.exists()
    # The file for paying still counts them.
    assert [row["votes"] for row in csv.DictReader(io.StringIO(
        crowds.file_for_paying(round_, owner)
    ))] == ["1", "1"]  # fmt: skip
    assert set(Intervention.objects.values_list("reason", flat=True)) == {aside.REJECTED}
    assert CrowdSubmission.objects.filter(state="rejected").count() == 2


def test_the_page_of_a_person_puts_aside_and_undoes(client, voted, ana):
    rosa = make_member(voted.project, Role.RESEARCHER, "rosa")
    client.force_login(rosa)
    address = reverse("round_person", args=[voted.project.slug, voted.number, ana.number])
    refused = client.post(address, {"aside": "1", "reason": ""})
    assert refused.status_code == 422
    assert not Vote.every.filter(aside_at__isnull=False).exists()
    done = client.post(address, {"aside": "1", "reason": WHY, "stop": "on"}, follow=True).text
    assert "3 votes put aside." in done
    assert "This person gets no more pairs of this round." in done
    assert WHY in done
    assert "rosa" in done
    page = client.get(reverse("round", args=[voted.project.slug, voted.number])).text
    assert "3 votes were put aside and don't count." in page
    assert "3 put aside" in page
    done = client.post(address, {"again": "1"}, follow=True).text
    assert "3 votes count again." in done
    done = client.post(address, {"release": "1"}, follow=True).text
    assert "They can label in this round again." in done


def test_a_person_of_another_project_is_not_found(client, voted, owner):
    stranger = make_annotator(make_project("another"), "sven")
    stranger.number = 9
    stranger.save()
    client.force_login(owner)
    found = client.get(reverse("round_person", args=[voted.project.slug, voted.number, 9]))
    assert found.status_code == 404


@pytest.mark.parametrize(("stop", "missing"), [(False, "is not stopped"), (True, "is put aside")])
def test_the_command_undoes_both_or_nothing(voted, ana, stop, missing):
    slug = voted.project.slug
    call_command("put_aside", slug, "1", "ana", reason=WHY, stop=stop)
    if stop:
        aside.count_again(voted, ana, None)
    before = aside.standing_of(voted, ana)
    with pytest.raises(CommandError, match=f"{missing}.*Nothing was changed"):
        call_command("put_aside", slug, "1", "ana", undo=True, release=True)
    assert aside.standing_of(voted, ana) == before


def test_the_command_does_the_same(voted, ana, capsys):
    slug = voted.project.slug
    call_command("put_aside", slug, "1", "ana", reason=WHY, stop=True)
    assert "3 votes put aside." in capsys.readouterr().out
    assert event(voted, "votes put aside").actor == "command line"
    call_command("put_aside", slug, "1", "annotator-1", undo=True, release=True)
    assert "3 votes counted again; still put aside" in capsys.readouterr().out
    with pytest.raises(CommandError, match="has no annotator “nobody”"):
        call_command("put_aside", slug, "1", "nobody", reason=WHY)
    with pytest.raises(CommandError, match="has no round 7"):
        call_command("put_aside", slug, "7", "ana", reason=WHY)
    with pytest.raises(CommandError, match="Say why"):
        call_command("put_aside", slug, "1", "ana")
