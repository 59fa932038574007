"""The list of rounds and the page of one: what stands on them, and what its buttons do."""

import re
from decimal import Decimal

import pytest
from django.urls import reverse

from annotation.models import Flag, RoundWork
from annotation.rounds import growing
from annotation.rounds.opening import Practice, RoundSettings, open_round
from annotation.votes.imports import import_votes
from judging.projects.models import AuditEvent, Role
from tests.factories import (
    make_annotator,
    make_examples,
    make_member,
    make_run,
    make_verdict,
    make_vote,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def round_(project):
    make_examples(project, 3)
    return open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=5))


@pytest.fixture
def routed(project):
    """Selected by a run: one of four by β = 25 %."""
    run = make_run(project)
    for example, bpde in zip(make_examples(project, 4), (0.9, 0.7, 0.5, 0.1), strict=True):
        make_verdict(run, example, bpde)
    return open_round(project, None, run, RoundSettings(beta=Decimal(25), votes=1, seed=5))


def address(round_, name="round", *more):
    return reverse(name, args=[round_.project.slug, round_.number, *more])


def press(client, round_, name, **fields):
    response = client.post(address(round_, name), fields)
    round_.refresh_from_db()
    return response


def test_the_list_shows_every_round_with_its_counts(as_researcher, round_):
    page = as_researcher.get(reverse("rounds", args=[round_.project.slug]))
    assert address(round_) in page.text
    assert '0 <span class="coverage">of 6</span>' in page.text


def test_the_list_of_a_new_project_says_what_to_do(as_researcher, project):
    page = as_researcher.get(reverse("rounds", args=[project.slug])).text
    assert "No round yet" in page
    assert reverse("plan", args=[project.slug]) in page


def test_the_page_follows_the_work_until_the_round_is_closed(as_researcher, round_):
    standing = address(round_, "round_standing")
    assert standing in as_researcher.get(address(round_)).text
    assert standing in as_researcher.get(standing).text
    press(as_researcher, round_, "round_close")
    assert standing not in as_researcher.get(standing).text


def test_a_round_of_practice_says_how_far_its_closing_is(as_researcher, project, monkeypatch):
    make_examples(project, 2, is_check=True, check_for="training", gold_label="win")
    round_ = open_round(project, None, None, RoundSettings(practice=Practice("training")))
    monkeypatch.setattr(growing, "AT_ONCE", 0)
    press(as_researcher, round_, "round_close")
    standing = address(round_, "round_standing")
    for page in (address(round_), standing):
        text = as_researcher.get(page).text
        assert "0 of 2 items settled" in text
        assert address(round_, "round_cancel") in text
        assert f'hx-get="{standing}"' in text
    said = as_researcher.post(address(round_, "round_cancel"), follow=True).text
    assert "Cancelled. The round is open again." in said


def test_it_warns_while_too_few_people_can_vote(as_researcher, round_, project):
    page = as_researcher.get(address(round_)).text
    # The researcher who looks may vote as well.
    assert "Only one person can vote in this round, but 3 items need 2 votes" in page
    assert "Owners and researchers are counted" in page
    make_annotator(project)
    assert "can vote in this round" not in as_researcher.get(address(round_)).text


def test_nobody_can_vote_where_those_who_are_named_have_gone(as_researcher, project):
    make_examples(project, 3)
    ana = make_annotator(project)
    settings = RoundSettings(everything=True, votes=1, annotators=[ana])
    round_ = open_round(project, None, None, settings)
    assert "can vote in this round" not in as_researcher.get(address(round_)).text
    project.memberships.filter(user=ana.user).delete()
    page = as_researcher.get(address(round_)).text
    assert "No one can vote in this round, but 3 items need 1 vote." in page
    assert "Owners and researchers are counted" not in page


def test_its_buttons_move_it_through_its_states(as_researcher, round_):
    states = []
    for name in ("pause", "resume", "close", "reopen"):
        press(as_researcher, round_, f"round_{name}")
        states.append(round_.state)
    assert states == ["paused", "open", "closed", "open"]
    actions = AuditEvent.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions)[1:] == [
        "round paused", "round resumed", "round closed", "round reopened"
    ]  # fmt: skip


def test_a_large_round_says_how_far_its_closing_is_and_can_be_left_open(
    as_researcher, round_, monkeypatch
):
    # All is left to a worker, which never comes.
    monkeypatch.setattr(growing, "AT_ONCE", 0)
    press(as_researcher, round_, "round_pause")
    press(as_researcher, round_, "round_close")
    work = growing.current_work(round_)
    RoundWork.objects.update(n_done=1)
    page = as_researcher.get(address(round_)).text
    assert "The round is closed, and its items are being settled." in page
    assert "1 of 3 items settled" in page
    assert address(round_, "round_cancel") in page
    said = as_researcher.post(address(round_, "round_cancel"), follow=True).text
    assert "Cancelled. The round is paused again. All its votes are there." in said
    assert "The round is paused again, and its items are being settled." in said
    assert address(round_, "round_cancel") not in said
    assert growing.work_on(work.pk)
    round_.refresh_from_db()
    assert (round_.state, growing.current_work(round_)) == ("paused", None)
    assert AuditEvent.objects.latest("pk").detail == {"what": "close"}


def test_a_button_that_came_too_late_says_so(as_researcher, round_):
    press(as_researcher, round_, "round_pause")
    answer = as_researcher.post(address(round_, "round_pause"), follow=True)
    assert "Round 1 is paused" in answer.text


def test_votes_can_be_raised_and_never_lowered(as_researcher, round_):
    assert press(as_researcher, round_, "round_votes", votes="3").status_code == 302
    assert round_.votes_per_item == 3
    refused = press(as_researcher, round_, "round_votes", votes="2")
    assert refused.status_code == 422
    assert "above 3" in refused.text


def test_the_cut_can_be_extended(as_researcher, routed):
    assert routed.items.count() == 1
    assert press(as_researcher, routed, "round_extend", beta="50").status_code == 302
    assert routed.items.count() == 2
    refused = press(as_researcher, routed, "round_extend", beta="50")
    assert refused.status_code == 422
    assert "adds nothing" in refused.text


def test_a_flag_is_shown_until_it_is_settled(as_researcher, round_, project):
    ana = make_annotator(project, "ana")
    flag = Flag.objects.create(item=round_.items.first(), annotator=ana, reason="<b>odd</b>")
    assert "&lt;b&gt;odd&lt;/b&gt;" in as_researcher.get(address(round_)).text
    as_researcher.post(address(round_, "flag_settle", flag.pk))
    assert "odd" not in as_researcher.get(address(round_)).text
    assert AuditEvent.objects.filter(action="flag settled").exists()


def test_what_is_kept_for_a_moment_is_each_roles_own_and_ends_with_a_change(
    as_researcher, client, round_, project, monkeypatch
):
    monkeypatch.setattr("annotation.pages.rounds.FEW_ITEMS", 0)
    person = make_annotator(project)
    make_vote(round_.items.first(), person, "win")
    standing, link = (
        address(round_, "round_standing"),
        address(round_, "round_person", person.number),
    )
    assert link in (before := as_researcher.get(standing).text)
    make_vote(round_.items.last(), person, "win")
    assert as_researcher.get(standing).text == before
    press(as_researcher, round_, "round_pause")
    assert as_researcher.get(standing).text != before
    client.force_login(make_member(project, Role.REVIEWER, "rae"))
    assert link not in client.get(standing).text


def test_a_number_beyond_the_databases_is_not_found(as_researcher, project):
    far = reverse("round", args=[project.slug, 10**30])
    assert as_researcher.get(far).status_code == 404


def test_a_flag_of_another_round_cannot_be_settled_here(as_researcher, round_, project):
    other = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    flag = Flag.objects.create(
        item=other.items.first(), annotator=make_annotator(project), reason="odd"
    )
    assert as_researcher.post(address(round_, "flag_settle", flag.pk)).status_code == 404


def test_nothing_on_the_page_shows_what_the_judge_said(as_researcher, researcher, routed, project):
    make_vote(routed.items.get(), make_annotator(project), "win")
    for name in ("round", "round_standing", "adjudication"):
        page = as_researcher.get(address(routed, name)).text
        assert "BPDE" not in page
        # It says how long ago something was as well.
        assert "0.9" not in re.sub(r"<time.*?</time>", "", page)
    assert researcher.memberships.get().unblinded_at is None


def test_a_round_on_everything_claims_no_selection(as_researcher, project):
    run = make_run(project)
    make_verdict(run, *make_examples(project, 1), 0.9, rank=1)
    for settings, said in (
        (
            RoundSettings(everything=True, votes=1),
            "Every example is labelled, for the final labels of",
        ),
        (RoundSettings(beta=Decimal(100), votes=1), "selected by the ranking of"),
    ):
        round_ = open_round(project, None, run, settings)
        assert said in as_researcher.get(address(round_, "round")).text


def test_pages_take_as_many_queries_for_fifty_as_for_one(
    as_researcher, project, round_, django_assert_max_num_queries
):
    def count(name):
        with django_assert_max_num_queries(40) as queries:
            as_researcher.get(address(round_, name))
        return len(queries)

    def work():
        person = make_annotator(project)
        item = round_.items.filter(slots__vote=None).first()
        make_vote(item, person, "win")
        Flag.objects.create(item=item, annotator=person, reason="odd")

    press(as_researcher, round_, "round_votes", votes="20")
    work()
    as_researcher.get(address(round_))
    one = [count("round"), count("round_standing")]
    for _ in range(49):
        work()
    # One less than before: where enough people can vote, nothing is out of their reach.
    assert [count("round"), count("round_standing")] == [n - 1 for n in one]


def test_the_list_takes_as_many_queries_for_fifty_rounds_as_for_one(
    as_researcher, project, round_, django_assert_num_queries
):
    page = reverse("rounds", args=[project.slug])
    with django_assert_num_queries(6):
        as_researcher.get(page)
    for _ in range(49):
        open_round(project, None, None, RoundSettings(everything=True, votes=1))
    with django_assert_num_queries(6):
        as_researcher.get(page)


def test_the_page_says_on_which_items_fleiss_kappa_stands(as_researcher, project, tmp_path):
    make_examples(project, 3)
    rows = [f"e{n},{who},{'win' if n else 'tie'}" for n in range(2) for who in ("kim", "lou")]
    path = tmp_path / "votes.csv"
    path.write_text("\n".join(["external_id,annotator,label", *rows, "e2,kim,win"]))
    import_votes(project, None, path)
    page = as_researcher.get(f"/p/{project.slug}/rounds/1").content.decode()
    kappa = page.partition("kappa</dt><dd>")[2].partition("</dd>")[0]
    assert ">1.00<" in kappa
    assert "on the 2 items with 2&nbsp;votes" in kappa


def test_a_closed_round_leads_to_the_results_of_its_run(as_researcher, routed):
    link = f"/p/{routed.project.slug}/results?run={routed.run.number}"
    assert link not in as_researcher.get(address(routed)).text
    as_researcher.post(address(routed, "round_close"))
    assert link in as_researcher.get(address(routed)).text


def test_the_page_shows_the_guidelines_of_its_round(as_researcher, project):
    project.guidelines = "Read **both** first."
    project.save()
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=5))
    project.guidelines = ""
    project.save()
    later = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=5))
    page = as_researcher.get(address(round_)).text
    assert "Read <strong>both</strong> first." in page
    assert "Guidelines" not in as_researcher.get(address(later)).text


def test_a_change_to_a_closed_round_says_why_it_was_refused(as_researcher, round_):
    press(as_researcher, round_, "round_close")
    page = press(as_researcher, round_, "round_votes", votes=3)
    assert "Reopen the round before you ask for more votes." in page.text


@pytest.mark.parametrize(
    ("n", "said"),
    [
        (0, "The round is closed. It has no vote that counts."),
        (1, "The round is closed. 1 vote counts."),
        (2, "The round is closed. 2 votes count."),
    ],
)
def test_closing_says_how_many_votes_count(as_researcher, project, round_, n, said):
    item = round_.items.select_related("example", "round__protocol").first()
    for _ in range(n):
        make_vote(item, make_annotator(project), "win")
    page = as_researcher.post(address(round_, "round_close"), follow=True)
    assert said in page.text


@pytest.mark.parametrize("left_out", [True, False])
def test_closing_counts_no_vote_that_is_left_out(as_researcher, project, round_, left_out):
    project.leave_out_unblinded = left_out
    project.save()
    item = round_.items.select_related("example", "round__protocol").first()
    make_vote(item, make_annotator(project), "win", unblinded=True)
    page = as_researcher.post(address(round_, "round_close"), follow=True)
    assert ("no vote that counts" in page.text) == left_out


def test_votes_that_will_not_be_cast_are_told_apart_from_missing_ones(
    as_researcher, project, round_
):
    assert "won't be cast" not in as_researcher.get(address(round_)).text
    item = round_.items.order_by("position").first()
    item.state = "adjudicate"
    item.save()
    page = " ".join(as_researcher.get(address(round_)).text.split())
    assert "0 of 6 votes" in page
    assert "2 of the missing votes won't be cast" in page
