"""Who may see the pages of imports, and what their list costs."""

import pytest
from django.urls import reverse

from judging.dataset.models import Import
from tests.factories import make_import

pytestmark = pytest.mark.django_db

PATHS = [
    "imports",
    "import_detail",
    "import_check",
    "import_begin",
    "import_undo",
    "import_refused",
]


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize(
    ("who", "status"), [("outsider", 404), ("annotator", 403), ("other_annotator", 403)]
)
def test_only_researchers_and_owners_import(client, project, request, name, who, status):
    make_import(project, state=Import.State.CHECKED, summary={"n_rows": 1})
    client.force_login(request.getfixturevalue(who))
    arguments = {"imports": [], "import_refused": [1, 0]}.get(name, [1])
    url = reverse(name, args=[project.slug, *arguments])
    posts = name in ("import_check", "import_begin", "import_undo")
    response = client.post(url) if posts else client.get(url)
    assert response.status_code == status
    assert Import.objects.get().state == Import.State.CHECKED


def test_the_list_takes_as_many_queries_for_fifty_as_for_one(
    as_researcher, project, django_assert_max_num_queries
):
    url = reverse("imports", args=[project.slug])
    make_import(project, file_names=["a.csv"])
    as_researcher.get(url)
    with django_assert_max_num_queries(12) as one:
        as_researcher.get(url)
    for _ in range(49):
        make_import(project, file_names=["a.csv"])
    with django_assert_max_num_queries(len(one)):
        as_researcher.get(url)


NAMED = {"kind": "names its model", "count": 2, "lines": [2, 3], "sentence": "2 rows in which…"}


@pytest.mark.parametrize(("who", "hidden"), [("owner", True), ("researcher", False)])
def test_an_owner_may_hide_models_names_with_the_import(client, project, request, who, hidden):
    summary = {
        "n_rows": 1, "n_new": 1, "n_known": 0, "n_conflicts": 0, "n_problems": 0, "fatal": False,
        "readings": [], "notices": [NAMED], "names": ["question"], "columns": {}, "gold": {},
    }  # fmt: skip
    make_import(project, state=Import.State.CHECKED, summary=summary)
    client.force_login(request.getfixturevalue(who))
    page = client.get(reverse("import_detail", args=[project.slug, 1])).content.decode()
    assert "2 rows in which…" in page
    assert ('name="hide_models"' in page) == hidden
    client.post(reverse("import_begin", args=[project.slug, 1]), {"hide_models": "on"})
    project.refresh_from_db()
    assert project.hide_models == hidden


def test_the_first_rows_name_no_model_until_somebody_asks_for_them(client, project, owner):
    """Nobody is stopped in the middle of an import, and nobody loses their blindness by it."""
    row = {"external_id": "e1", "texts": ["Why?", "One", "Two"], "category": "", "gold_label": ""}
    counts = dict.fromkeys(("n_rows", "n_new", "n_known", "n_conflicts"), 1)
    summary = counts | {"rows": [row | {"models": ["maple-7b", "birch-3b"]}]}
    make_import(project, state=Import.State.CHECKED, summary=summary)
    client.force_login(owner)
    url = reverse("import_detail", args=[project.slug, 1])
    page = client.get(url).content.decode()
    assert "<h1>Import 1: 1 new pair found, nothing imported yet</h1>" in page
    assert "maple-7b" not in page
    look = reverse("look", args=[project.slug])
    assert f'href="{look}?models=1&amp;next={url}"' in page
    asked = client.get(look, {"models": 1, "next": url}).content.decode()
    assert "Do you want to see which model wrote what?" in asked
    shown = client.post(look, {"next": url}, follow=True).content.decode()
    assert "maple-7b" in shown
    assert "See which model wrote what" not in shown
