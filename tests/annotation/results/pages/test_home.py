"""The first page: a person's projects with what is in them."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from annotation.models import Draft, Item
from annotation.people.annotators import assignable
from annotation.queue.queue import claim_next
from annotation.results.pages.overview import next_action, standings
from annotation.results.report.cache import current_report
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from judging.dataset.models import Import
from judging.llm.prices import PriceSnapshot
from judging.projects.access import settings_of
from judging.projects.models import Membership, Project, Role
from judging.runs.models import Run
from tests.factories import (
    make_annotator,
    make_examples,
    make_import,
    make_member,
    make_project,
    make_run,
    make_user,
    make_vote,
)
from tests.rows_written import reads_of_cache

pytestmark = [pytest.mark.databases]


def fill(project, n):
    make_examples(project, n)
    for number in range(2):
        make_run(project, name=f"run {number}")
        open_round(project, None, None, RoundSettings(everything=True, votes=1))


def listed(client):
    return client.get("/").context["projects"]


def test_a_project_shows_how_much_is_in_it(as_researcher, project):
    fill(project, 3)
    Run.objects.filter(name="run 1").update(state=Run.State.RUNNING)
    (found,) = listed(as_researcher)
    assert (found.n_examples, found.n_runs, found.n_running, found.n_rounds) == (3, 2, 1, 2)


def test_half_an_import_is_not_counted(as_researcher, project):
    (example,) = make_examples(project, 1)
    example.source = make_import(project, state=Import.State.WRITING)
    example.save()
    (found,) = listed(as_researcher)
    assert (found.n_examples, found.n_runs, found.n_running, found.n_rounds) == (0, 0, 0, 0)


def test_what_is_counted_is_not_multiplied_with_what_else_is_counted(
    as_researcher, project, django_assert_max_num_queries
):
    fill(project, 3)
    with django_assert_max_num_queries(20) as queries:
        listed(as_researcher)
    # An item has several free slots, and what a person can still get is counted in items.
    asked = [re.sub(r'COUNT\(DISTINCT \w+."item_id"\)', "", query["sql"]) for query in queries]
    assert not [sql for sql in asked if "COUNT(DISTINCT" in sql]


def test_the_page_takes_as_many_queries_for_fifty_projects_as_for_one(
    as_researcher, researcher, project, django_assert_num_queries
):
    def queries():
        with django_assert_num_queries(13 + reads_of_cache(1)):
            return list(listed(as_researcher))

    fill(project, 1)
    make_vote(Item.objects.first(), make_annotator(project), "win")
    assert len(queries()) == 1
    for number in range(49):
        other = make_project()
        other.memberships.create(user=researcher, role=Role.OWNER)
        make_examples(other, 1)
        if number < 4:
            fill(other, 1)
            item = Item.objects.filter(round__project=other).first()
            make_vote(item, make_annotator(other), "win")
    assert len(queries()) == 50


def test_each_project_tells_how_it_is_doing(client, as_researcher, project):
    make_examples(project, 3)
    price = PriceSnapshot.flat(Decimal(1), Decimal(2), "given").to_json()
    run = make_run(project, spent_usd="0.50", price=price)
    Project.objects.filter(pk=project.pk).update(wage_usd=60, minutes_per_vote=1)
    project.refresh_from_db()
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2))
    items = list(round_.items.order_by("position"))
    ana, ben = make_annotator(project, "ana"), make_annotator(project, "ben")
    make_vote(items[0], ana, "win", active_seconds=20)
    long_ago = timezone.now() - timedelta(days=3)
    make_vote(items[0], ben, "win", active_seconds=40, submitted_at=long_ago)
    assert isinstance(claim_next(round_, ana), Draft)

    def facts(client):
        ((*_, found),) = client.get("/").context["rows"]
        return found

    seen = facts(as_researcher)
    assert (seen.at_work, seen.n_votes, seen.recent, seen.pace) == (1, 2, 1, 30)
    assert (seen.human_usd, seen.judge_usd) == (2, Decimal("0.5"))
    # No page computes a report, and one that is kept is taken.
    assert seen.agreement is None
    current_report(project, run)
    seen = facts(as_researcher)
    assert (seen.agreement.value, seen.agreement.n) == (1, 1)
    assert Membership.objects.filter(unblinded_at__isnull=False).count() == 0
    page = " ".join(as_researcher.get("/").text.split())
    assert "<dt>At work now</dt><dd>1</dd>" in page
    # What a judge has cost is nothing that a reviewer is told.
    client.force_login(make_member(project, Role.REVIEWER))
    assert facts(client).judge_usd is None
    Run.objects.update(price=None)
    client.force_login(make_member(project, Role.OWNER))
    assert facts(client).judge_usd is None


def test_each_project_has_its_next_action_with_one_button(as_researcher, project):
    fill(project, 3)
    page = " ".join(as_researcher.get("/").content.decode().split())
    assert "6 items wait for votes." in page
    assert page.count(f'href="/p/{project.slug}/rounds/1"') == 1


def test_an_owner_who_is_alone_is_led_to_invite_people(as_owner, project):
    fill(project, 3)
    assert "Only one person can vote." in as_owner.get("/").text
    make_annotator(project)
    assert "Only one person can vote." not in as_owner.get("/").text


def test_what_the_next_action_claims_holds_and_its_negation_is_not_said(project):
    def said():
        action = next_action(standings(Project.objects.all()).get())
        return action.text, action.url

    def runs_are(**states):
        for number, state in states.items():
            Run.objects.filter(number=int(number[-1])).update(state=state)

    checked = make_import(project, state="checked")
    assert said()[0] == "A file was checked. Nothing is imported yet."
    assert said()[1].endswith(f"/imports/{checked.number}")
    make_examples(project, 3)
    assert said()[0] == "No judge has labelled these pairs yet."
    make_run(project, state="queued", ranked_at=None)
    assert said()[0] == "Run 1 is waiting for a worker. You don't need to do anything."
    make_run(project, state="done")
    # The run at work is named and linked, not the newest one.
    runs_are(run_1="running")
    text, url = said()
    assert text == "Run 1 is running. You don't need to do anything."
    assert url.endswith("/runs/1")
    runs_are(run_1="done")
    # Pairs that came after the run have no label of a judge, so “everything” would be untrue.
    make_examples(project, 2)
    assert said()[0] == "Judging has ended. Nobody has checked the judge's labels yet."
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    assert said()[0] == "5 items wait for votes."
    changes.close(round_, None)
    assert said()[0] == "Nothing is left to do. The results are ready."
    runs_are(run_2="paused")
    assert said()[0] == "Run 2 is paused."


def test_a_researcher_makes_a_project_and_others_cannot(client, db):
    client.force_login(make_user("nina", researcher=True))
    assert client.post("/", {"name": "My pairs"}).url == "/p/my-pairs/"
    assert Membership.objects.get().role == Role.OWNER
    client.force_login(make_user("stranger"))
    refused = client.post("/", {"name": "Other pairs"})
    assert refused.status_code == 422
    assert Project.objects.count() == 1


def test_a_new_project_is_like_another_with_its_people(client, project):
    owner = make_member(project, Role.OWNER, "olga")
    project.name, project.guidelines, project.scale = "Old <b>", "Be *fair*.", "five"
    project.wage_usd, project.criteria, project.description = "12.5", ["accuracy"], "the first"
    project.save()
    seen = make_member(project, Role.RESEARCHER, "rita")
    Membership.objects.filter(user=seen).update(unblinded_at=timezone.now())
    make_member(project, Role.ANNOTATOR, "ana")
    gone = make_member(project, Role.ANNOTATOR, "gone")
    gone.is_active = False
    gone.save()
    client.force_login(owner)
    page = client.get("/").content.decode()
    assert f"Old &lt;b&gt; ({project.slug})" in page
    asked = {"name": "Second", "like": project.slug, "people": "on"}
    assert client.post("/", asked).url == "/p/second/"
    second = Project.objects.get(slug="second")
    assert settings_of(second) == settings_of(Project.objects.get(pk=project.pk))
    assert (second.guidelines, second.wage_usd, second.description) == ("Be *fair*.", 12.5, "")
    roles = second.memberships.values_list("user__username", "role", "unblinded_at")
    assert sorted(roles) == [
        ("ana", "annotator", None), ("olga", "owner", None), ("rita", "researcher", None)
    ]  # fmt: skip
    added = second.audit_events.filter(action="member added")
    assert set(added.values_list("actor", "subject")) == {("olga", "ana"), ("olga", "rita")}
    # A round can be given to them by name before they have labelled here.
    assert {one.name for one in assignable(second)} == {"ana", "olga", "rita"}
    # Settings alone, and people without a project to take them from.
    client.post("/", {"name": "Third", "like": project.slug})
    assert Project.objects.get(slug="third").memberships.count() == 1
    refused = client.post("/", {"name": "Fourth", "people": "on"})
    assert "Choose the project whose people you want to add." in refused.content.decode()


def test_a_project_without_texts_is_a_model_for_one_with_texts(client, project):
    client.force_login(make_member(project, Role.OWNER, "olga"))
    Project.objects.update(texts_removed_at=timezone.now())
    client.post("/", {"name": "Second", "like": project.slug})
    assert Project.objects.get(slug="second").texts_removed_at is None


def test_nobody_copies_from_a_project_that_they_do_not_own(client, project):
    client.force_login(make_member(project, Role.RESEARCHER, "rita"))
    assert "Copy the settings of" not in client.get("/").content.decode()
    client.post("/", {"name": "Second", "like": project.slug, "people": "on"})
    assert Project.objects.get(slug="second").memberships.count() == 1
