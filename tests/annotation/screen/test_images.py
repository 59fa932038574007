"""Images in the browser: who may load one, what it is served as, and that nothing else loads."""

import pytest
from django.test import Client
from django.urls import reverse

from annotation.queue.queue import claim_next
from annotation.rendering import render
from annotation.rounds.opening import RoundSettings, open_round
from annotation.screen.blind import blind_pair
from judging.dataset.models import Image
from judging.dataset.writing import import_files
from judging.projects.models import Role
from tests.annotation.crowd import begin, set_up
from tests.annotation.rendering.reading import Reading
from tests.factories import make_annotator, make_member, make_project, make_user
from tests.judging.dataset.test_images import rows, uploaded
from tests.pictures import packed, picture

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def pictured(project, settings, tmp_path):
    """A round of one pair with an image in its first response, and one image with no item."""
    settings.MEDIA_ROOT = tmp_path
    pair = ("See.", 'Here: ![the "cat" <b> of atlas-2](c.png)', "![x](https://evil.example/x.png)")
    content = packed({"p.jsonl": rows(pair), "c.png": picture()})
    import_files(project, None, uploaded(content))
    return open_round(project, None, None, RoundSettings(everything=True, votes=3))


def address_of(image):
    return reverse("image", args=[image.pk])


def status(user, address):
    browser = Client()
    if user is not None:
        browser.force_login(user)
    return browser.get(address).status_code


def test_only_those_load_an_image_who_may_see_its_example(project, pictured, owner):
    image = Image.objects.get()
    address = address_of(image)
    ana, ben = make_annotator(project, "ana"), make_annotator(project, "ben")
    stranger = make_member(make_project(), Role.OWNER)
    assert status(None, address) == 302
    for user in (ana.user, stranger, make_user(researcher=True)):
        assert status(user, address) == 404
    draft = claim_next(pictured, ana)
    browser = Client()
    browser.force_login(ana.user)
    page = browser.get(reverse("annotate_item", args=[draft.token])).content.decode()
    assert address in page
    assert "evil.example/x.png)" in page
    answer = browser.get(address)
    assert answer.content == bytes(image.content)
    assert answer["Content-Type"] == "image/png"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "immutable" in answer["Cache-Control"]
    assert "private" in answer["Cache-Control"]
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert status(ben.user, address) == 404
    for role in (Role.REVIEWER, Role.OBSERVER, Role.RESEARCHER, Role.OWNER):
        assert status(make_member(project, role), address) == 200
    assert status(make_user(is_superuser=True), address) == 200
    # The browser of a person of a panel is held to their round, and sees the images of its items.
    worker = begin(set_up(pictured, owner))
    assert worker.get(address).status_code == 404
    worker.get(worker.get(reverse("crowd_own")).context["next_url"], follow=True)
    assert worker.get(address).status_code == 200
    ana.left_at = draft.updated_at
    ana.save()
    assert status(ana.user, address) == 404
    assert status(owner, reverse("image", args=["0" * 64])) == 404


def test_an_image_costs_as_many_queries_in_any_project(
    project, pictured, django_assert_max_num_queries
):
    owner = make_member(project, Role.OWNER)
    browser = Client()
    browser.force_login(owner)
    with django_assert_max_num_queries(8):
        assert browser.get(address_of(Image.objects.get())).status_code == 200


def test_nothing_is_loaded_but_what_the_site_keeps(project, pictured):
    image = Image.objects.get()
    pair = blind_pair(claim_next(pictured, make_annotator(project)))
    found = [pair.left, pair.right]
    (kept,) = [html for html in found if "<img" in html]
    elements = [attributes for tag, attributes in Reading(kept).elements if tag == "img"]
    assert elements == [{"src": address_of(image), "alt": 'Image: the "cat" <b> of atlas-2'}]
    for text in (
        f"![]({address_of(image)})", f"<img src={address_of(image)}>",
        "![](sha256:" + "A" * 64 + ")",
        f"![](//evil.example/images/{image.pk})", f"`![](sha256:{image.pk})`", "![](sha256:12)",
    ):  # fmt: skip
        for how in ("markdown", "plain"):
            if not (how == "plain" and "`" in text):
                assert "<img" not in render(text, how), text
    for how in ("markdown", "plain"):
        assert render(f"![](sha256:{image.pk})", how).count("<img") == 1
