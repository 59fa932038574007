"""What a judge at a real server is sent of images, and what can't be sent."""

import base64
import hashlib

import pytest

from judging.core.errors import UserError
from judging.core.images import TOKENS
from judging.dataset.models import Example, Image
from judging.dataset.writing import import_files
from judging.runs.endpoints import recall_for
from judging.runs.engine.likelihoods import texts_of
from judging.runs.planning.estimate import estimate_run
from tests.factories import make_examples, make_project
from tests.judging.dataset.test_images import rows, uploaded
from tests.judging.runs.judging import ENDPOINT, judged, loopback, started
from tests.loopback.log import parts_of
from tests.loopback.quirks import Quirks
from tests.pictures import packed, picture

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def project(settings, tmp_path):
    """Two pairs, of which the first has an image in the question and one in a response."""
    settings.MEDIA_ROOT = tmp_path
    project = make_project()
    content = packed(
        {
            "p.jsonl": rows(
                ("Before. ![a red one](red.png) After.", "Mine: ![](blue.png)", "No picture."),
                ("Plain?", "Yes.", "No."),
            ),
            "red.png": picture(),
            "blue.png": picture(colour="blue"),
        }
    )
    import_files(project, None, uploaded(content))
    return project


def shown(entry):
    """The content of a request in its order: texts, and the hashes of images."""
    found = []
    for message in entry.body["messages"]:
        for part in parts_of(message):
            if part["type"] == "image_url":
                head, _, content = part["image_url"]["url"].partition(",")
                assert head == "data:image/png;base64"
                found.append(hashlib.sha256(base64.b64decode(content)).hexdigest())
            else:
                found.append(part["text"])
    return found


@pytest.mark.parametrize("marks", [False, True])
def test_images_are_sent_where_they_stand_in_both_orders(project, settings, marks):
    with loopback(settings) as server:
        run = judged(project, method="mec_bpc", k=1, concurrency=1, cache_marks=marks)
        probe, *log = server.log
    assert run.state == "done"
    assert len(shown(probe)) == 2
    red, blue = (one.pk for one in Image.objects.order_by("created_at", "pk"))
    if f"![](sha256:{blue})" not in Example.objects.order_by("number").first().response_1:
        red, blue = blue, red
    pictured = [one for one in map(shown, log) if red in one]
    assert len(log) == 4
    assert len(pictured) == 2
    for parts in pictured:
        assert parts[parts.index(red) - 1].endswith("Before. ")
        assert parts[parts.index(red) + 1].startswith(" After.")
        assert parts[parts.index(blue) - 1].endswith("Mine: ")
        assert "sha256" not in "".join(parts).replace(red, "").replace(blue, "")
    swapped = [one[one.index(blue) - 1] for one in pictured]
    assert sum("No picture." in text for text in swapped) == 1
    # The model is known to take images: another run doesn't ask again.
    assert recall_for(run.base_url, run.model)[0].images


def test_a_model_that_takes_no_images_is_refused_before_the_run(project, settings):
    with loopback(settings, quirks=Quirks(takes_images=False)) as server:
        with pytest.raises(UserError, match=r"didn't take one .*only supported by certain models"):
            started(project)
        assert len(server.log) == 1
        assert not project.runs.exists()
        # Without images nothing is asked first.
        other = make_project()
        make_examples(other, 1)
        judged(other, method="vanilla")
        assert len(server.log) == 2


def test_what_can_t_hold_images_says_so_before_the_run(project, settings):
    with loopback(settings) as server:
        for choices, said in (
            ({"batch": True}, "file of a batch"),
            ({"method": "portia"}, "PORTIA splits responses"),
            ({"endpoint": "local"}, "the local judge takes none"),
        ):
            with pytest.raises(UserError, match=said):
                started(project, **choices)
            with pytest.raises(UserError, match=said):
                estimate_run(project, **{"endpoint": ENDPOINT} | choices)
        assert not server.log


def test_estimates_count_images_by_the_documented_rule(project, settings):
    other = make_project()
    texts = ("question", "response_1", "response_2")
    for row in Example.objects.filter(project=project).order_by("number").values(*texts):
        plain = {name: text.split("](sha256:")[0] for name, text in row.items()}
        make_examples(other, 1, **plain)
    with loopback(settings):
        asked = {"endpoint": ENDPOINT, "method": "mec_bpc", "k": 1}
        pictured, without = estimate_run(project, **asked), estimate_run(other, **asked)
    # Two images in both orders of one pair.
    assert 0 <= pictured.prompt_tokens - without.prompt_tokens - 4 * TOKENS + 40 < 100
    assert f"{TOKENS:,} tokens" in pictured.basis
    assert f"{TOKENS:,} tokens" not in without.basis


def test_likelihoods_are_those_of_texts_without_images(project, settings):
    with loopback(settings):
        run = judged(project, method="vanilla")
    assert sorted(text.output for text in texts_of(run).values()) == ["No.", "Yes."]
