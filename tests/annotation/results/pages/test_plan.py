"""The planner's page: what it says, what opens from it, and when it unblinds."""

import pytest
from django.test import Client
from django.utils import timezone

from annotation.models import Round
from annotation.results.report import cache
from annotation.votes.imports import import_votes
from judging.core.models import Worker
from judging.projects.models import Membership
from tests.factories import make_examples, make_run, make_verdict


def test_a_plan_waits_for_figures_that_a_worker_computes(client, owner, judged, monkeypatch):
    monkeypatch.setattr(cache, "MOST_AT_ONCE", 9)
    monkeypatch.setattr("judging.core.waking.wake", lambda *asked: True)
    now = timezone.now()
    Worker.objects.create(name="w", queues="quick", started_at=now, seen_at=now)
    client.force_login(owner)
    page = client.get("/p/vicuna/plan").content.decode()
    assert "The figures of this run are being computed." in page
    assert "before a judge has labelled" not in page
    assert 'hx-trigger="load delay:3s"' in page


def test_opening_a_round_from_the_plan(client, owner, judged):
    client.force_login(owner)
    sent = {"run": judged.pk, "how": "beta", "beta": "20", "votes": "2", "audit": "1"}
    preview = client.get("/p/vicuna/plan/preview", sent).content.decode()
    assert "2 by rank + 1 audit = 3 of 10 · 6 new votes · $2.25" in " ".join(preview.split())
    assert client.post("/p/vicuna/plan", sent).status_code == 302
    opened = Round.objects.get()
    assert (opened.votes_per_item, opened.wage_usd) == (2, judged.project.wage_usd)
    refused = client.post("/p/vicuna/plan", sent | {"beta": "1", "audit": "0"})
    assert refused.status_code == 422
    assert "selects no example" in refused.content.decode()


def test_the_plan_says_of_k_what_is_known(client, owner, judged):
    client.force_login(owner)
    sent = {
        "run": judged.pk,
        "how": "beta",
        "beta": "20",
        "votes": "1",
        "audit": "0",
        "k": judged.k,
    }
    preview = " ".join(client.get("/p/vicuna/plan/preview", sent).content.decode().split())
    beside = (
        f"With k = {judged.k}, the cost of the judge isn't known. The judge's accuracy isn't "
        "known yet"
    )
    assert beside in preview


def test_the_plan_leads_to_the_invitations_where_too_few_can_vote(
    client, owner, researcher, judged
):
    client.force_login(owner)
    sent = {"run": judged.pk, "how": "beta", "beta": "20", "votes": "3", "audit": "0"}
    preview = " ".join(client.get("/p/vicuna/plan/preview", sent).content.decode().split())
    said = (
        "Only 2 people can vote.</strong> 3 votes per example need 3 people. Owners and researchers"
    )
    assert said in preview
    assert 'href="/p/vicuna/people"' in preview
    client.force_login(researcher)
    preview = client.get("/p/vicuna/plan/preview", sent).content.decode()
    assert "Ask an owner to invite more" in preview
    sent["votes"] = "2"
    assert "can vote" not in client.get("/p/vicuna/plan/preview", sent).content.decode()


def test_looks_are_chosen_with_the_plan(client, owner, judged):
    client.force_login(owner)
    sent = {"run": judged.pk, "how": "beta", "beta": "20", "votes": "1", "audit": "4"}
    preview = client.get("/p/vicuna/plan/preview", sent | {"looks": "2, 4"}).content.decode()
    assert "over all checks together" in preview
    for looks in ("4, 2", "two", "2, 5", "0, 2"):
        refused = client.post("/p/vicuna/plan", sent | {"looks": looks})
        assert refused.status_code == 422
        assert not Round.objects.exists()
    assert client.post("/p/vicuna/plan", sent | {"looks": "2, 4"}).status_code == 302
    assert Round.objects.get().certificate_plan["looks"] == [2, 4]


@pytest.mark.parametrize(
    ("n", "more", "shown"),
    [(40, {}, "What to expect"), (10, {"k": "3"}, "The judge's accuracy is")],
)
def test_the_planner_asks_before_it_says_how_often_the_judge_is_right(
    owner, project, tmp_path, n, more, shown
):
    """Before a label is known it shows counts, costs and the cut alone."""
    client = Client()
    run = make_run(project)
    for example in make_examples(project, n):
        make_verdict(run, example, example.number / n, rank=n - example.number)
    client.force_login(owner)
    member = Membership.objects.filter(user=owner)
    sent = {"run": run.pk, "how": "beta", "beta": "20", "votes": "1", "audit": "0"} | more
    asks = "depends on how often the judge is right"
    for address in ("plan", "plan/preview"):
        assert asks not in client.get(f"/p/vicuna/{address}", sent).text
    path = tmp_path / "votes.csv"
    votes = "".join(f"e{number},kim,win\n" for number in range(n))
    path.write_text("external_id,annotator,label\n" + votes)
    import_votes(project, None, path)
    page = client.get("/p/vicuna/plan/preview", sent).text
    assert asks in page
    assert "Recommended" not in page
    assert shown not in page
    assert member.get().unblinded_at is None
    assert client.post("/p/vicuna/look", {"next": "/p/vicuna/plan"})["Location"] == "/p/vicuna/plan"
    assert member.get().unblinded_at is not None
    assert shown in client.get("/p/vicuna/plan/preview", sent).text


WRONG = {"how": "beta", "beta": "20", "votes": "0", "audit": "9", "route": "learned", "learn": "60"}


def test_all_mistakes_are_marked_at_their_fields_on_page_and_preview(client, owner, judged):
    """The cut of 2 of 10 is smaller than the sample, 8 are left for an audit of 9, 0 votes."""
    client.force_login(owner)
    wrong = WRONG | {"run": judged.pk}
    for answer in (
        client.get("/p/vicuna/plan/preview", wrong),
        client.get("/p/vicuna/plan", wrong),
        client.post("/p/vicuna/plan", wrong),
    ):
        page = answer.text
        for name in ("votes", "audit", "learn"):
            errors = page.split(f'id="errors-{name}"')[1].split("</div>")[0]
            assert "<li>" in errors, name
        assert "<li>" not in page.split('id="errors-beta"')[1].split("</div>")[0]
        for title in ("Votes per example", "Size of the audit", "Random sample to learn from"):
            assert f">{title}</a>" in page
    assert answer.status_code == 422
    assert not Round.objects.exists()


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"how": "beta", "beta": ""}, "beta"),
        ({"how": "budget", "budget": ""}, "budget"),
        ({"how": "budget", "budget": "0.01"}, "budget"),
        ({"beta": "1"}, "beta"),
        ({"run": ""}, "run"),
        ({"audit": "4", "looks": "9"}, "looks"),
        ({"how": "some"}, "how"),
    ],
)
def test_each_impossible_setting_is_said_at_its_own_field(client, owner, judged, fields, name):
    client.force_login(owner)
    sent = {"run": judged.pk, "how": "beta", "beta": "20", "votes": "1", "audit": "0"} | fields
    page = client.post("/p/vicuna/plan", sent)
    assert page.status_code == 422
    wrong = [part.split('"')[0] for part in page.text.split('id="errors-')[1:] if "<li>" in
             part.split("</div>")[0]]  # fmt: skip
    assert wrong == [name]
    assert not Round.objects.exists()


def test_the_recommendation_is_preselected_with_the_audit_that_can_certify(
    client, owner, project, tmp_path
):
    run = make_run(project)
    for example in make_examples(project, 80):
        make_verdict(run, example, (80 - example.number) / 100, rank=example.number + 1)
    path = tmp_path / "votes.csv"
    # The judge says win; the first 16 by rank are wrong.
    votes = "".join(f"e{n},kim,{'lose' if n < 16 else 'win'}\n" for n in range(80))
    path.write_text("external_id,annotator,label\n" + votes)
    import_votes(project, None, path)
    client.force_login(owner)
    assert "depends on how often the judge is right" in client.get("/p/vicuna/plan").text
    client.post("/p/vicuna/look")
    page = " ".join(client.get("/p/vicuna/plan").text.split())
    assert "Recommended: review 20 %" in page
    assert 'name="beta" value="20.0"' in page or 'name="beta" value="20"' in page
    assert "16 by rank + 29 audit = 45 of 80" in page
    assert "Use this" not in page
    other = client.get("/p/vicuna/plan/preview", WRONG | {
        "run": run.pk, "votes": "1", "beta": "50", "route": "bpde", "audit": "0"}).text  # fmt: skip
    assert "Use this" in other
    assert "beta=20" in other


def test_what_was_entered_is_in_the_address_and_survives_a_reload(client, owner, judged):
    client.force_login(owner)
    sent = {"run": judged.pk, "how": "budget", "budget": "1.50", "votes": "2", "audit": "1"}
    page = client.get("/p/vicuna/plan", sent).text
    assert 'value="1.50"' in page
    assert 'value="budget" required id="id_how_1" checked' in page.replace(
        'id="id_how_1" required', 'required id="id_how_1"') or "checked" in page.split(
        'value="budget"')[1].split(">")[0]  # fmt: skip
    assert "csrfmiddlewaretoken" not in page.split("<noscript>")[1].split("</noscript>")[0]


def test_an_audit_that_is_unticked_is_none_and_scripts_name_its_size_alone(client, owner, judged):
    client.force_login(owner)
    sent = {"run": judged.pk, "how": "beta", "beta": "20", "votes": "1", "audit": "4"}
    assert "4 audit" in client.get("/p/vicuna/plan/preview", sent).text
    unticked = client.get("/p/vicuna/plan/preview", sent | {"asks_audit": "True"}).text
    assert "audit =" not in unticked
    ticked = sent | {"asks_audit": "True", "audited": "on"}
    assert "4 audit" in client.get("/p/vicuna/plan/preview", ticked).text


def test_an_audit_that_leaves_little_offers_to_label_all(client, owner, judged):
    client.force_login(owner)
    sent = {"run": judged.pk, "how": "beta", "beta": "20", "votes": "1", "audit": "5"}
    page = " ".join(client.get("/p/vicuna/plan/preview", sent).text.split())
    assert "leaves only 3 examples without" in page
    # Ten votes of three minutes at $7.50 an hour.
    assert "Label all 10 instead: $3.75" in page
    assert "instead" not in client.get("/p/vicuna/plan/preview", sent | {"audit": "1"}).text


def test_nothing_is_left_to_certify_only_if_people_label_everything(client, owner, judged):
    """Ten examples: two by rank, and the others by the audit."""
    client.force_login(owner)
    sent = {"run": judged.pk, "how": "beta", "beta": "20", "votes": "1", "audit": "8"}
    says = "Every example gets a person's label"
    assert says in client.get("/p/vicuna/plan/preview", sent).text
    assert says not in client.get("/p/vicuna/plan/preview", sent | {"audit": "7"}).text


def test_a_project_without_pairs_is_sent_to_the_import(client, owner, project):
    client.force_login(owner)
    for page in ("plan", "results/verdict"):
        text = client.get(f"/p/{project.slug}/{page}").text
        assert f'href="/p/{project.slug}/imports/"' in text
        assert "Start a run" not in text
        assert "Open the round" not in text
