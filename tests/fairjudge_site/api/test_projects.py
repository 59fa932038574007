"""Projects by the interface, and what every operation shares: problems, ETags, keys."""

import hashlib

import pytest
from django.test import Client

from annotation.people.annotators import assignable
from judging.projects.models import KeptAnswer, Membership, Project
from tests.factories import make_annotator, make_examples, make_project

pytestmark = pytest.mark.django_db


def test_strangers_get_404_as_if_there_was_no_project(token_for, project, outsider):
    there = token_for(outsider).get("projects/vicuna")
    nowhere = token_for(outsider).get("projects/nowhere")
    assert there.status_code == nowhere.status_code == 404
    assert there.content == nowhere.content
    assert there.json()["code"] == "not_found"


def test_a_project_is_made_listed_and_shown(token_for, outsider):
    one = token_for(outsider)
    made = one.post("projects", {"name": "New pairs", "description": "Of mine."})
    assert made.status_code == 201
    assert made["Location"] == "/api/v1/projects/new-pairs"
    make_examples(Project.objects.get(slug="new-pairs"), 3)
    shown = one.get(made["Location"]).json()
    assert (shown["role"], shown["examples"], shown["description"]) == ("owner", 3, "Of mine.")
    assert [row["slug"] for row in one.get("projects").json()["items"]] == ["new-pairs"]


def test_a_project_is_like_another_that_one_owns_with_its_people(token_for, outsider, project):
    one = token_for(outsider)
    one.post("projects", {"name": "First"})
    first = Project.objects.get(slug="first")
    Project.objects.filter(pk=first.pk).update(guidelines="Be fair.", scale="five")
    make_annotator(first, "ana")
    asked = {"name": "Second", "like": "first", "people": True, "description": "Again."}
    assert one.post("projects", asked).status_code == 201
    second = Project.objects.get(slug="second")
    assert (second.guidelines, second.scale, second.description) == ("Be fair.", "five", "Again.")
    assert {each.name for each in assignable(second)} == {"ana", outsider.username}
    # Somebody else's looks as if it wasn't there.
    for wrong in ({"like": project.slug}, {"like": "nowhere"}, {"people": True}):
        refused = one.post("projects", {"name": "Third"} | wrong)
        assert (refused.status_code, refused.json()["code"]) == (422, "refused")
        assert "Choose a project that you own" in refused.json()["detail"]
    assert not Project.objects.filter(slug="third").exists()


def test_a_refusal_has_a_code_the_pages_sentence_and_the_field(
    token_for, project, annotator, outsider
):
    one = token_for(outsider)
    taken = one.post("projects", {"name": "Vicuna"})
    assert (taken.status_code, taken.json()["code"]) == (422, "refused")
    assert "exists already" in taken.json()["detail"]
    wrong = one.post("projects", {"name": "", "slug": "x" * 200}).json()
    assert (wrong["code"], wrong["field"]) == ("field_unusable", "body.name")
    assert [error["field"] for error in wrong["errors"]] == ["body.name", "body.slug"]
    odd = one.post("projects", {"name": "a\0b"}).json()
    assert odd["errors"][0]["field"] == "body.name"
    assert (
        one.post("projects", b"{no json", **{"Content-Type": "application/json"}).status_code == 400
    )
    assert one.ask("PATCH", "projects").json()["code"] == "method_not_allowed"
    assert one.get("nothing/here").json()["code"] == "not_found"
    refused = token_for(annotator).post("projects", {"name": "mine"})
    assert "researcher" in refused.json()["detail"]


def test_pages_follow_each_other_whatever_is_added(token_for, outsider):
    one = token_for(outsider)
    for number in range(5):
        project = make_project(f"p{number}")
        Membership.objects.create(project=project, user=outsider, role="researcher")
    seen, cursor = [], ""
    while True:
        page = one.get(f"projects?limit=2&cursor={cursor}").json()
        seen += [row["slug"] for row in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [f"p{number}" for number in range(5)]
    for wrong in ("limit=0", "limit=1001", "cursor=zzz", "cursor=azk5OTk5OTk5OTk5OTk5OTk5OTk5OTk"):
        assert one.get(f"projects?{wrong}").status_code == 422


@pytest.mark.parametrize("n", [1, 50])
def test_a_list_of_projects_takes_the_same_queries_with_one_and_fifty(
    token_for, outsider, n, django_assert_num_queries
):
    one = token_for(outsider)
    for number in range(n):
        project = make_project(f"p{number}")
        Membership.objects.create(project=project, user=outsider, role="owner")
    # Once a minute the use of a token is written down.
    one.get("me")
    with django_assert_num_queries(3):
        assert len(one.get("projects").json()["items"]) == n


def test_a_read_that_has_not_changed_is_not_sent_again(token_for, owner, project):
    one = token_for(owner)
    first = one.get("projects/vicuna")
    again = one.get("projects/vicuna", **{"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    Project.objects.update(description="other")
    assert one.get("projects/vicuna", **{"If-None-Match": first["ETag"]}).status_code == 200
    assert "Authorization" in first["Vary"]
    assert "private" in first["Cache-Control"]


def test_a_repeat_with_the_same_key_gets_the_first_answer(token_for, outsider):
    one, key = token_for(outsider), {"Idempotency-Key": "k1"}
    first = one.post("projects", {"name": "New"}, **key)
    again = one.post("projects", {"name": "New"}, **key)
    assert (again.status_code, again.content) == (201, first.content)
    assert again["Location"] == first["Location"]
    assert again["Idempotency-Replayed"] == "true"
    other = one.post("projects", {"name": "Other"}, **key)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")
    assert Project.objects.count() == 1
    assert token_for(outsider).post("projects", {"name": "Other"}, **key).status_code == 201
    for unusable in ("", "x" * 201, "é"):
        refused = one.post("projects", {"name": "X"}, **{"Idempotency-Key": unusable})
        assert refused.status_code == 400


def test_a_crash_before_the_answer_was_kept_leaves_neither(token_for, outsider, monkeypatch):
    from fairjudge_site.api import gate

    one, key = token_for(outsider), {"Idempotency-Key": "k1"}

    def crash(*args):
        raise RuntimeError("the process is gone")

    with monkeypatch.context() as patched:
        patched.setattr(gate, "_keep", crash)
        failed = one.post("projects", {"name": "New"}, **key)
    assert (failed.status_code, failed.json()["code"]) == (500, "unexpected")
    assert not Project.objects.exists()
    assert not KeptAnswer.objects.exists()
    assert one.post("projects", {"name": "New"}, **key).status_code == 201


def test_a_refused_request_may_succeed_when_it_is_repeated(token_for, owner, outsider):
    one, key = token_for(outsider), {"Idempotency-Key": "k1"}
    assert one.post("projects", {"name": "vicuna"}, **key).status_code == 422
    Project.objects.update(slug="renamed")
    assert one.post("projects", {"name": "vicuna"}, **key).status_code == 201


def test_the_schema_and_its_page_are_open_and_need_no_script(db):
    client = Client()
    schema = client.get("/api/v1/openapi.json")
    assert schema.json()["openapi"].startswith("3.1")
    page = client.get("/api/v1/docs")
    assert page.status_code == 200
    text = page.content.decode()
    for path in schema.json()["paths"]:
        assert path in text
    assert "<script>" not in text
    assert "http://" not in text.replace("http://testserver", "")


def test_the_etag_of_the_schema_is_the_same_in_every_process(db):
    schema = Client().get("/api/v1/openapi.json")
    assert schema["ETag"] == f'"{hashlib.sha256(schema.content).hexdigest()[:32]}"'
    again = Client().get("/api/v1/openapi.json", headers={"if-none-match": schema["ETag"]})
    assert again.status_code == 304


def test_translations_are_sent_whole_and_read_back(token_for, owner, project):
    api, url = token_for(owner), f"projects/{project.slug}/settings"
    german = {"question_asked": "Welche?", "guidelines": "", "names": {"tone": "Ton: laut"}}
    asked = {"criteria": ["tone"], "language": "en", "content_language": "pt-BR"}
    done = api.ask("PATCH", url, asked | {"translations": {"de": german}})
    assert done.status_code == 200
    assert done.json()["translations"] == {"de": german}
    assert (done.json()["language"], done.json()["content_language"]) == ("en", "pt-BR")
    # What isn't sent stays, and half a translation is refused.
    assert api.ask("PATCH", url, {"wage_usd": 9}).json()["translations"] == {"de": german}
    half = api.ask("PATCH", url, {"criteria": ["tone", "style"]})
    assert half.status_code == 422
    assert "style" in half.text
    assert api.ask("PATCH", url, {"translations": {"it": german}}).status_code == 422
    assert api.ask("PATCH", url, {"translations": {}}).json()["translations"] == {}
