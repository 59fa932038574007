"""Pairs that come again: when, to whom and how they look, and that they are no votes."""

import itertools
import re
import threading

import pytest
from django.db import connection

from annotation.models import Draft, Item, Repeat, Slot, Vote
from annotation.people.annotators import come_back, leave_round
from annotation.people.personal_data import erase_annotator, held_about
from annotation.queue.queue import NoItem, claim_next, heartbeat, skip, unskip
from annotation.queue.repeats import n_repeats
from annotation.results.report.report import people_alone, to_json
from annotation.results.tables.people import people_rows
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from annotation.screen.hand import address_of, last_token, take_up, vote_on
from annotation.screen.progress import open_work, progress_of
from annotation.votes.aside import put_aside
from annotation.votes.voting import RoundClosed, record_vote
from judging.core.errors import UserError
from tests.annotation.screen.posting import post
from tests.factories import make_annotator, make_examples

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def ana(project):
    return make_annotator(project, "ana")


def round_of(project, n=12, percent=50, after=3, **fields):
    make_examples(project, n)
    settings = RoundSettings(
        everything=True, votes=1, seed=1, repeat_percent=percent, repeat_after=after, **fields
    )
    return open_round(project, None, None, settings)


def say(draft, label="win"):
    side = draft.left_response if label == "win" else 3 - draft.left_response
    return record_vote(draft, {"overall": "left" if side == 1 else "right"})


def work(round_, annotator, again="win", most=100):
    """Vote "win" on everything, and say `again` to pairs that come again. Returns both in order."""
    seen = []
    while len(seen) < most and isinstance(draft := claim_next(round_, annotator), Draft):
        seen.append(draft)
        say(draft, "win" if draft.repeat_id is None else again)
    return seen


def test_a_share_of_pairs_comes_again_with_sides_exchanged_after_others(project, ana):
    round_ = round_of(project)
    seen = work(round_, ana)
    firsts = [draft for draft in seen if draft.repeat_id is None]
    repeats = [draft for draft in seen if draft.repeat_id is not None]
    assert len(firsts) == 12
    assert len(repeats) == n_repeats(round_, ana, 12 - 3) in (4, 5)
    for draft in repeats:
        first = next(one for one in firsts if one.item_id == draft.item_id)
        between = seen[seen.index(first) + 1 : seen.index(draft)]
        assert sum(one.repeat_id is None for one in between) >= 3
        assert draft.left_response == 3 - first.left_response
    assert claim_next(round_, ana) == NoItem("done")
    # No item has a second vote by it.
    assert Vote.every.count() == Slot.objects.filter(vote__isnull=False).count() == 12
    assert not Item.objects.exclude(state="complete").exists()


def test_the_same_seed_draws_the_same_and_a_share_of_0_none(project, ana):
    round_ = round_of(project, percent=30)
    drawn = [n_repeats(round_, ana, n) for n in range(101)]
    assert drawn[100] - drawn[0] == 30
    assert max(after - before for before, after in itertools.pairwise(drawn)) == 1
    starts = {n_repeats(round_, make_annotator(project), 2) for _ in range(12)}
    assert starts == {0, 1}
    for wrong in ({"repeat_percent": 51}, {"repeat_percent": 5, "repeat_after": 0}):
        with pytest.raises(UserError, match="again"):
            open_round(project, None, None, RoundSettings(everything=True, **wrong))


def test_self_agreement_is_in_the_table_and_the_report_and_in_no_other_figure(project, ana):
    round_ = round_of(project)
    bob = make_annotator(project, "bob")
    work(round_, ana, again="lose")
    Repeat.objects.update(active_seconds=60.0)
    before = to_json(people_alone(project))
    (row,) = people_rows(project, Vote.every.all(), names=False, background=False)
    n = Repeat.objects.filter(submitted_at__isnull=False).count()
    assert (row["self_agreement"], row["self_agreement_n"]) == (0.0, n)
    assert 0 < row["self_agreement_high"] < 1
    assert (row["votes"], row["repeats"], row["repeat_seconds"]) == (12, n, 60.0 * n)
    assert row["repeat_usd"] == n * row["usd"] / 12
    (own,) = before["self_agreement"]
    assert (own["annotator"], own["agreement"]["value"], own["agreement"]["n"]) == (
        ana.pseudonym,
        0.0,
        n,
    )
    Repeat.objects.all().delete()
    after = to_json(people_alone(project))
    assert before | {"self_agreement": []} == after
    assert bob.pk


def test_skipping_leaving_closing_and_putting_aside_behave(
    project, ana, django_capture_on_commit_callbacks
):
    round_ = round_of(project, percent=50, after=2)

    def until_again():
        while (draft := claim_next(round_, ana)).repeat_id is None:
            say(draft)
        return draft

    draft = until_again()
    assert heartbeat(draft)
    skip(draft)
    assert Item.objects.get(pk=draft.item_id).state == "complete"
    assert claim_next(round_, ana).token != draft.token
    unskip(draft)
    assert claim_next(round_, ana).token == draft.token
    leave_round(round_, ana)
    assert claim_next(round_, ana) == NoItem("left")
    with pytest.raises(RoundClosed, match="left"):
        say(draft)
    come_back(round_, ana)
    assert claim_next(round_, ana).token == draft.token
    say(draft, "win")
    say(draft, "lose")
    repeat = Repeat.objects.get(pk=draft.repeat_id)
    assert (repeat.first_label, repeat.label) == ("win", "lose")
    assert last_token(round_, ana) == draft.token
    assert last_token(round_, ana, before=vote_on(draft)) != draft.token
    other = until_again()
    changes.close(round_, None)
    with pytest.raises(RoundClosed):
        say(other)
    changes.reopen(round_, None)
    say(other)
    with django_capture_on_commit_callbacks(execute=True):
        put_aside(round_, ana, None, "A test.")
    assert not take_up(other, other.updated_at)
    (row,) = people_rows(project, Vote.every.all(), names=False, background=False)
    assert (row["self_agreement"], row["self_agreement_n"], row["repeats"]) == (None, 0, 2)
    held = [one["about"] for one in held_about(ana.user)]
    assert held.count("answer to a pair that came again") == 2
    erase_annotator(ana, None, remove_votes=True)
    assert not Repeat.objects.exists()
    assert not Draft.every.exists()


def test_a_pair_that_comes_again_looks_like_any_other(client, project, annotator):
    round_ = round_of(project, n=6, percent=50, after=1)
    client.force_login(annotator)
    pages, counts = {True: [], False: []}, []
    while (answer := client.get(address_of(round_))).status_code == 302:
        token = answer.url.split("/")[2]
        draft = Draft.every.get(token=token)
        html = client.get(f"/annotate/{token}").content.decode()
        pages[draft.repeat_id is not None].append(_plain(html, token))
        assert client.get(f"/annotate/{token}/ahead").status_code in (200, 204)
        assert post(client, token, "beat", script=True).status_code == 204
        posted = post(client, token, script=True, overall="left")
        assert posted.status_code == 200
        counts.append(re.search(r'value="(\d+)"', posted.content.decode())[1])
    assert len(pages[False]) == 6
    assert len(pages[True]) == len(set(counts)) - 6 in (2, 3)
    assert all(page in pages[False] for page in pages[True])
    done = progress_of(round_, project.annotators.get())
    assert done.done == done.total == len(counts)
    (listed,) = open_work(annotator)
    assert listed.finished


def _plain(html, token):
    """The page without what differs between any two pairs: the texts, the token and the count."""
    html = html.replace(token, "TOKEN")
    for varies in (
        r'csrfmiddlewaretoken" value="[^"]+"',
        r'"X-CSRFToken": ?"[^"]+"',
        r"(?s)<header class=\"bar-top\">.*?</header>",
        r'data-age="[^"]+"',
        r'formaction="[^"]*" formnovalidate( disabled)? aria-keyshortcuts="Backspace"',
        r'(?s)data-part="(question|left|right)">.*?</div>',
    ):
        html = re.sub(varies, "", html)
    return html.split()


@pytest.mark.django_db(transaction=True)
def test_two_tabs_that_ask_at_once_get_one_repeat(project, ana):
    round_ = round_of(project, percent=50, after=2)
    while not Repeat.objects.exists() or Repeat.objects.first().due > Vote.every.count():
        say(claim_next(round_, ana))
    both, tokens = threading.Barrier(4), []

    def ask():
        try:
            both.wait(10)
            tokens.append(claim_next(round_, ana).token)
        finally:
            connection.close()

    tabs = [threading.Thread(target=ask) for _ in range(4)]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()
    assert (len(tokens), len(set(tokens))) == (4, 1)
    assert Draft.every.filter(repeat__isnull=False).count() == 1
