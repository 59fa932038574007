"""No proxy may keep for others what the site shows to one person."""

import pytest

from tests.factories import make_examples


def directives(response):
    return {part.strip() for part in response["Cache-Control"].split(",")}


@pytest.mark.parametrize("path", ["", "examples", "no-such-page"])
def test_what_a_project_shows_or_refuses_is_private(as_owner, project, path):
    make_examples(project, 2)
    response = as_owner.get(f"/p/{project.slug}/{path}")
    assert directives(response) == {"private"}
    assert response.status_code in (200, 404)


def test_a_download_is_private(as_owner, project):
    assert directives(as_owner.post(f"/p/{project.slug}/export", {"what": "votes"})) == {"private"}


def test_pages_before_a_login_are_private_too(client, db):
    # A form carries the token of whoever got it.
    assert "private" in directives(client.get("/login/"))
    assert "private" in directives(client.get("/"))


def test_what_must_never_be_kept_stays_so(client, db):
    assert {"no-store", "private"} <= directives(client.get("/healthz"))


def test_static_files_may_be_kept_by_all(client, db):
    response = client.get("/static/css/app.css")
    response.close()
    assert "public" in directives(response)
    assert "private" not in directives(response)
