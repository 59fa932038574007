"""Conversations on the annotator's screen and on the pages of an example: shared turns once, safe,
blind, and as fast as texts.
"""

import re

import pytest
from django.urls import reverse

from annotation.queue.queue import claim_next
from annotation.rendering import render_shown, shown_of
from annotation.rounds.opening import RoundSettings, open_round
from annotation.screen.blind import blind_pair
from judging.core.conversations import dumped, text_of
from tests.annotation.rendering.reading import Reading
from tests.factories import make_annotator, make_examples

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
HOSTILE = "**Two** <img src=x onerror=alert(1)></div></div><p class=speaker>User</p> \u202e2"
CALL = {"function": {"name": "maple_7b <b>", "arguments": '{"a": "*b*"}'}, "id": "call_x9"}
LISTS = {
    "question": [
        {"role": "system", "content": "Be maple-7b."},
        {"role": "user", "content": "What is *1+1*?"},
    ],
    "response_1": [
        {"role": "assistant", "content": HOSTILE, "name": "maple-7b", "tool_calls": [CALL]},
        {"role": "tool", "name": "adder", "content": "| 1 | *2* |", "tool_call_id": "call_x9"},
        {"role": "user", "content": "Who are you?"},
        {"role": "assistant", "content": "I am Maple-7B."},
    ],
    "response_2": [{"role": "assistant", "content": "Three."}],
}


def fields(lists=LISTS):
    texts = {name: text_of(messages, name) for name, messages in lists.items()}
    return {**texts, "conversation": dumped(lists), "model_1": "maple-7b", "model_2": "birch-3b"}


@pytest.fixture
def drafted(project, annotator):
    def drafted(**more):
        make_examples(project, 1, **(fields() | more))
        round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
        person = annotator.annotators.first() or make_annotator(project, user=annotator)
        return claim_next(round_, person)

    return drafted


@pytest.fixture
def shown(client, annotator, drafted):
    def shown(view="rendered", path=""):
        client.force_login(annotator)
        return client.get(f"/annotate/{drafted().token}{path}?view={view}").content.decode()

    return shown


@pytest.mark.parametrize("path", ["", "/texts"])
def test_what_both_share_is_shown_once_and_the_rest_side_by_side(shown, path):
    page = shown(path=path)
    question = page.split('data-part="question"', 1)[1].split('data-part="left"', 1)[0]
    assert re.findall(r'class="speaker"><bdi>(.*?)</bdi>', question) == ["System", "User"]
    assert "<em>1+1</em>" in question
    assert page.count("Be maple-7b.") == 1
    sides = page.split('data-part="left"', 1)[1]
    assert re.findall(r'class="speaker"><bdi>(.*?)</bdi>', sides) == [
        "Assistant",
        "Assistant calls maple_7b &lt;b&gt;",
        "Tool adder",
        "User",
        "Assistant",
    ]
    # A response that is one answer is shown by itself.
    assert ">Three.<" in sides
    assert "call_x9" not in page


@pytest.mark.parametrize("view", ["rendered", "raw", "differences"])
def test_nothing_in_a_turn_acts_or_ends_it(shown, view):
    page = shown(view)
    assert "<img src=x" not in page
    assert "<p class=speaker" not in page
    assert ("<strong>Two</strong>" in page) == (view == "rendered")
    assert "| 1 | *2* |".replace(" ", "") in re.sub(r"</?mark>|\s", "", page)


@pytest.mark.parametrize("view", ["rendered", "raw", "differences"])
def test_names_of_models_are_hidden_in_every_turn_and_in_names_of_tools(project, shown, view):
    project.hide_models = True
    project.save()
    page = shown(view)
    responses = re.sub("</?mark>", "", page.split('class="side-tabs"', 1)[1]).lower()
    assert responses.count("model name hidden") == 2
    for name in ("maple-7b", "maple_7b", "birch"):
        assert name not in responses
    assert "Be maple-7b." in page


@pytest.mark.parametrize("how", ["markdown", "plain"])
def test_every_letter_and_digit_of_every_turn_can_be_read(how):
    texts = [fields()[name] for name in LISTS]
    for one, messages in zip(shown_of(texts, dumped(LISTS)), LISTS.values(), strict=True):
        page = Reading(render_shown(one, how)).text
        for message in messages:
            letters = [letter for letter in message["content"] if letter.isalnum()]
            assert all(page.count(letter) >= letters.count(letter) for letter in letters)


def test_an_empty_turn_says_so():
    empty = {"question": [{"role": "user", "content": " "}, {"role": "assistant", "content": "x"}]}
    (question, *_) = shown_of(["", "a", "b"], dumped(empty))
    assert "(empty)" in render_shown(question)


def test_a_conversation_asks_the_database_no_more_than_a_text(
    drafted, django_assert_num_queries, project
):
    for more in ({"conversation": None}, {}):
        draft = drafted(**more)
        draft.item.round.protocol  # noqa: B018 read before it is counted
        with django_assert_num_queries(1):
            blind_pair(draft)


def test_the_pages_of_an_example_and_of_an_item_show_the_chat(as_researcher, project):
    project.hide_models = True
    project.save()
    (example,) = make_examples(project, 1, **fields())
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    item = reverse("round_item", args=[project.slug, round_.number, round_.items.get().pk])
    for url in (reverse("example", args=[project.slug, example.pk]), item):
        text = as_researcher.get(url, follow=True).content.decode()
        assert text.count('class="speaker"') == 7
        assert "<img src=x" not in text
        assert ("I am Maple-7B." in text) == (url != item)
