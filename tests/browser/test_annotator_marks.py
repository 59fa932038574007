"""Confidence, reasons and marked text: by mouse and keyboard, kept, and shown to who decides."""

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from annotation.models import Draft, Vote
from annotation.rounds.opening import RoundSettings, open_round
from judging.projects.models import Preferences
from tests.browser.annotating import answer_of, said, settled, token_of, vote
from tests.factories import make_annotator, make_examples, make_vote

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PLAIN = "The first sentence is right. The second one is *quite* wrong."


@pytest.fixture
def asks(project):
    """Let the project ask for everything in addition."""

    def asks(**fields):
        for name, value in {
            "ask_confidence": True, "reason_tags": ["factual error", "too long"], "ask_spans": True,
        }.items() if not fields else fields.items():  # fmt: skip
            setattr(project, name, value)
        project.save()

    return asks


def select(page, side, words):
    """Select words of a response as the mouse does, wherever they are in its nodes."""
    page.evaluate(
        """([side, words]) => {
            const part = document.querySelector(`[data-part=${side}]`);
            const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
            const nodes = []; let text = "";
            for (let node = walker.nextNode(); node; node = walker.nextNode()) {
                nodes.push([node, text.length]); text += node.data;
            }
            const from = text.indexOf(words);
            if (from < 0) throw new Error(`${words} is not in ${text}`);
            const at = (place, isEnd) => {
                const found = nodes.findLast(([, start]) => isEnd ? start < place : start <= place);
                return [found[0], place - found[1]];
            };
            const range = document.createRange();
            range.setStart(...at(from, false));
            range.setEnd(...at(from + words.length, true));
            const selection = document.getSelection();
            selection.removeAllRanges();
            selection.addRange(range);
        }""",
        [side, words],
    )


def chips(page):
    return page.locator("[data-marks] q")


def marked(page, side):
    return page.locator(f"[data-part={side}] mark.span").all_inner_texts()


def kept_draft(page):
    return Draft.objects.get(token=token_of(page)).answer


def spans_of(answer):
    return [(one["response"], one["text"]) for one in answer.get("spans", ())]


def responses_of(page):
    draft = Draft.objects.get(token=token_of(page))
    return (1, 2) if draft.left_response == 1 else (2, 1)


def test_everything_is_answered_by_keyboard(start, asks):
    asks()
    page = start(response_1=PLAIN, response_2=PLAIN)
    settled(page)
    page.keyboard.press("1")
    expect(page.get_by_role("radiogroup", name="How sure are you?")).to_have_attribute(
        "data-focused", ""
    )
    page.keyboard.press("Enter")
    expect(said(page)).to_have_text("Say how sure you are before you submit.")
    page.keyboard.press("9")
    page.keyboard.press("w")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    left, right = responses_of(page)
    page.keyboard.press("m")
    expect(said(page)).to_contain_text("Marking in the left response.")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Enter")
    expect(chips(page)).to_have_text(["first sentence"])
    page.keyboard.press("m")
    expect(said(page)).to_contain_text("Marking in the right response.")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    page.keyboard.press("Shift+ArrowLeft")
    with page.expect_response("**/draft"):
        page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(said(page)).to_be_empty()
    assert marked(page, "left") == ["first sentence"]
    assert marked(page, "right") == ["quite", " wrong"]
    token = vote(page, "Enter")
    answer = answer_of(token)
    assert (answer["overall"], answer["confidence"]) == ("left", "high")
    assert answer["reasons"] == ["too long"]
    assert sorted(spans_of(answer)) == sorted([(left, "first sentence"), (right, "quite* wrong")])


def test_what_is_selected_with_the_mouse_is_marked_and_can_be_removed(start, asks):
    asks(ask_spans=True)
    page = start(response_1=PLAIN, response_2=PLAIN)
    left, right = responses_of(page)
    select(page, "right", "second one is quite")
    with page.expect_response("**/draft"):
        page.get_by_role("button", name="Mark text").click()
    select(page, "left", "The first")
    settled(page)
    with page.expect_response("**/draft"):
        page.keyboard.press("m")
    select(page, "left", "first sentence")
    with page.expect_response("**/draft"):
        page.keyboard.press("m")
    expect(chips(page)).to_have_text(["The first sentence", "second one is *quite"])
    assert sorted(spans_of(kept_draft(page))) == sorted(
        [(left, "The first sentence"), (right, "second one is *quite")]
    )
    page.reload()
    expect(chips(page)).to_have_text(["The first sentence", "second one is *quite"])
    assert marked(page, "right") == ["second one is ", "quite"]
    with page.expect_response("**/draft"):
        page.get_by_role("button", name="Remove this mark from the left response").click()
    expect(chips(page)).to_have_text(["second one is *quite"])
    assert marked(page, "left") == []
    assert spans_of(kept_draft(page)) == [(right, "second one is *quite")]


def test_marks_stay_where_they_are_in_raw_text_and_in_differences(start, asks):
    asks(ask_spans=True)
    page = start(response_1=PLAIN, response_2="Something else.")
    side = "left" if responses_of(page)[0] == 1 else "right"
    select(page, side, "quite wrong")
    page.get_by_role("button", name="Mark text").click()
    for view in ("Raw", "Differences"):
        with page.expect_response("**/texts?**"):
            page.get_by_role("button", name=view).click()
        expect(page.locator(f"[data-part={side}] mark.span").first).to_be_visible()
        assert "".join(marked(page, side)).strip() == "quite* wrong"
    page.get_by_role("button", name="Differences").click()
    expect(page.locator(f"[data-part={side}] mark.span")).to_have_count(2)


@pytest.mark.parametrize(
    ("text", "shown", "source"),
    [
        ("😀 Ein **dickes 👩‍👩‍👧 Wort** hier", "dickes 👩‍👩‍👧 Wort", "dickes 👩‍👩‍👧 Wort"),
        pytest.param(
            "今天天气很好。**我们**去公园。", "我们去", "我们**去", marks=pytest.mark.long
        ),
        ("هذا نص *عربي* طويل", "عربي طويل", "عربي* طويل"),
        pytest.param(
            "1. one\n2. two\n\n| a | b |\n|---|---|\n| cell | x |\n",
            "two",
            "two",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "See [the page](https://example.org/x) or `code`",
            "the page",
            "the page",
            marks=pytest.mark.long,
        ),
        ("Before $\\frac{a}{b}$ after the formula", "after the", "after the"),
        pytest.param(
            "```python\nprint('x')\n```\nand then",
            "print('x')",
            "print('x')",
            marks=pytest.mark.long,
        ),
    ],
)
def test_places_are_code_points_of_the_text_whatever_it_holds(start, asks, text, shown, source):
    asks(ask_spans=True)
    page = start(response_1=text, response_2=text)
    select(page, "left", shown)
    with page.expect_response("**/draft"):
        page.get_by_role("button", name="Mark text").click()
    (span,) = kept_draft(page)["spans"]
    assert span["text"] == source
    assert text[span["start"] : span["end"]] == source
    page.reload()
    expect(page.locator("[data-part=left] mark.span").first).to_be_visible()
    assert "".join(marked(page, "left")) == shown


def test_a_formula_and_the_whole_of_a_long_text_can_be_marked(start, asks):
    asks(ask_spans=True)
    text = "Before $\\frac{a}{b}$ after.\n\n" + "Some **bold** words here. " * 1500
    page = start(response_1=text, response_2=text)
    page.evaluate(
        """() => {
            const range = document.createRange();
            range.selectNodeContents(document.querySelector("[data-part=left] math"));
            document.getSelection().addRange(range);
        }"""
    )
    with page.expect_response("**/draft"):
        page.get_by_role("button", name="Mark text").click()
    (span,) = kept_draft(page)["spans"]
    assert "frac" in span["text"]
    assert "after" not in span["text"]
    assert page.locator("[data-part=left] math[data-marked]").count() == 1
    took = page.evaluate(
        """async () => {
            const range = document.createRange();
            range.selectNodeContents(document.querySelector("[data-part=left]"));
            document.getSelection().removeAllRanges();
            document.getSelection().addRange(range);
            const from = performance.now();
            document.querySelector("[data-mark]").click();
            return performance.now() - from;
        }"""
    )
    assert took < 3000
    expect(chips(page)).to_have_count(1)


def test_turning_on_the_side_of_right_to_left_text(start, asks):
    asks(ask_spans=True)
    page = start(response_1="هذا نص عربي طويل", response_2="هذا نص عربي طويل")
    settled(page)
    page.keyboard.press("m")
    page.keyboard.press("ArrowLeft")
    with page.expect_response("**/draft"):
        page.keyboard.press("Enter")
    assert [one["text"] for one in kept_draft(page)["spans"]] == ["نص"]


def test_marks_that_the_server_does_not_have_come_back_from_the_browser(start, asks):
    asks()
    page = start(response_1=PLAIN, response_2=PLAIN)
    page.route("**/draft", lambda route: route.abort())
    select(page, "left", "first sentence")
    page.get_by_role("button", name="Mark text").click()
    page.get_by_role("radio", name="Sure", exact=True).check(force=True)
    page.get_by_label("too long").check(force=True)
    expect(said(page)).to_contain_text("kept in this browser")
    page.reload()
    expect(chips(page)).to_have_text(["first sentence"])
    expect(page.get_by_role("radio", name="Sure", exact=True)).to_be_checked()
    expect(page.get_by_label("too long")).to_be_checked()
    page.unroute("**/draft")


def test_the_next_pair_has_its_own_marks_and_going_back_shows_the_first_ones(start, asks):
    asks(ask_spans=True)
    page = start(response_1=PLAIN, response_2=PLAIN)
    select(page, "left", "first sentence")
    page.get_by_role("button", name="Mark text").click()
    token = vote(page, "2", "Enter")
    expect(chips(page)).to_have_count(0)
    assert marked(page, "left") == []
    settled(page)
    page.keyboard.press("Backspace")
    expect(page.locator(f"#item[data-token='{token}']")).to_be_visible()
    expect(chips(page)).to_have_text(["first sentence"])
    page.wait_for_load_state("networkidle")
    select(page, "right", "second")
    page.get_by_role("button", name="Mark text").click()
    vote(page, "Enter")
    stored = Vote.objects.get(item__drafts__token=token)
    assert sorted(text for _, text in spans_of(stored.answer)) == ["first sentence", "second"]
    assert [text for _, text in spans_of(stored.revisions.get().answer)] == ["first sentence"]


def test_marking_leaves_the_other_keys_alone_and_can_be_moved(start, asks):
    asks(ask_spans=True)
    page = start(response_1=PLAIN, response_2=PLAIN)
    settled(page)
    page.keyboard.press("m")
    page.keyboard.press("2")
    expect(page.get_by_role("radio", name="Right is better")).to_be_checked()
    expect(page.locator("[data-marking]")).to_have_count(0)
    page.keyboard.press("?")
    page.get_by_text("Change the keys").click()
    field = page.locator("[data-moves=M]")
    with page.expect_response("**/preferences"):
        field.press("q")
    page.keyboard.press("Escape")
    page.keyboard.press("q")
    expect(page.locator("[data-marking]")).to_have_count(1)


def test_a_key_moved_to_one_of_a_new_action_keeps_its_meaning(start, asks, annotator):
    Preferences.objects.create(user=annotator, keys={"S": "M"})
    asks(ask_spans=True)
    page = start(response_1=PLAIN, response_2=PLAIN)
    expect(page.get_by_role("button", name="Skip")).to_have_attribute("aria-keyshortcuts", "M")
    assert page.get_by_role("button", name="Mark text").get_attribute("aria-keyshortcuts") is None


def test_without_any_of_it_the_screen_loads_none_of_it(start):
    page = start()
    assert page.locator("script[src*=spans], script[src*=more]").count() == 0
    assert page.locator(".more").count() == 0
    assert not {"M", "W", "7"} & set(page.locator("[data-places]").get_attribute("data-places"))


def test_who_decides_reads_who_marked_which_words(project, owner, asks, log_in):
    asks(ask_spans=True)
    make_examples(project, 1, response_1=PLAIN)
    settings = RoundSettings(everything=True, votes=2, seed=3)
    item = open_round(project, None, None, settings).items.get()
    for name, words in (("zoe", "first sentence"), ("ida", "sentence is")):
        start = PLAIN.index(words)
        span = {"response": 1, "start": start, "end": start + len(words), "text": words}
        make_vote(item, make_annotator(project, name), "win", answer={"spans": [span]})
    page = log_in(owner, reverse("example", args=[project.slug, item.example_id]) + "?run=people")
    marks = page.locator("mark.span")
    expect(marks).to_have_text(["first ", "sentence", " is"])
    assert [mark.get_attribute("title") for mark in marks.all()] == [
        "Marked by annotator-1",
        "Marked by annotator-1, annotator-2",
        "Marked by annotator-2",
    ]
    # Who listens reads it in the text.
    expect(page.locator(".response", has=marks)).to_contain_text(
        "sentence (marked by annotator-1, annotator-2)"
    )


def test_what_can_be_marked_has_names_for_people_who_listen(start, asks):
    asks()
    page = start(response_1=PLAIN, response_2=PLAIN)
    select(page, "left", "first sentence")
    page.get_by_role("button", name="Mark text").click()
    group = page.get_by_role("group", name="Marked text")
    expect(group.get_by_role("button")).to_have_count(2)
    name = "Remove this mark from the left response: first sentence"
    expect(group.get_by_role("button", name=name)).to_be_visible()
    expect(page.locator("#announcer")).to_have_text("Marked in the left response: first sentence")
    expect(page.get_by_role("group", name="Why?").get_by_role("checkbox")).to_have_count(2)
    said_before = page.locator("mark.span").first.evaluate(
        "(mark) => getComputedStyle(mark, '::before').content"
    )
    assert "marked" in said_before
    page.keyboard.press("m")
    expect(page.get_by_role("application", name="Left response")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("application")).to_have_count(0)
