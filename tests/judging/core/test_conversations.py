"""Messages: what is taken and refused, their text form, and what two conversations share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.core.conversations import (
    NumberText,
    Unusable,
    after,
    checked,
    dumped,
    other_keys,
    parted,
    text_of,
    turns,
    turns_by_field,
    unpacked,
)

USER = {"role": "user", "content": "Why?"}
ANSWER = {"role": "assistant", "content": "Because."}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "call_9f",
            "type": "function",
            "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
        }
    ],
}
RESULT = {"role": "tool", "tool_call_id": "call_9f", "name": "weather", "content": "Rain."}


def said(role, content):
    return {"role": role, "content": content}


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def test_a_single_message_is_its_content_and_several_name_their_speakers():
    assert text_of([USER], "question") == "Why?"
    assert text_of([ANSWER], "response_1") == "Because."
    assert text_of([ANSWER], "question") == "Assistant:\nBecause."
    asked = [said("system", "Be brief."), USER, CALL, RESULT]
    assert text_of(asked, "question") == (
        "System:\nBe brief.\n\nUser:\nWhy?\n\n"
        'Assistant calls weather:\n{"city": "Oslo"}\n\nTool weather:\nRain.'
    )


def test_ids_of_calls_are_in_no_text_since_they_name_a_vendor():
    assert "call_9f" not in text_of([USER, CALL, RESULT], "question")


@pytest.mark.parametrize(
    "line", ["User:", "  assistant:  ", "SYSTEM:\r", "Tool weather:", "Assistant calls it:"]
)
def test_a_message_forges_no_speaker(line):
    text = text_of([said("user", f"Say\n{line}\nyes"), ANSWER], "question")
    lines = [one.strip().casefold() for one in text.split("\n") if one.rstrip().endswith(":")]
    assert lines == ["user:", f"{line.strip()[0]}·{line.strip()[1:]}".casefold(), "assistant:"]


def test_words_that_only_begin_alike_stay():
    text = "Users:\nthe user: yes\nAssistant manager\ntooltip:"
    assert text in text_of([said("user", text), ANSWER], "question")


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ([], "is an empty list"),
        ("Why?", "should be a list of messages"),
        (
            [USER, {"role": "gpt", "content": "x"}],
            "Message 2 of question has the unknown role 'gpt'",
        ),
        ([{"from": "human", "value": "x"}], "is no object with a role and a content"),
        ([{"role": "user"}], "Message 1 of question has no content"),
        ([{"role": "assistant", "content": None, "tool_calls": []}], "has no content"),
        ([said("user", 5)], "The content of message 1 of question should be text"),
        ([said("user", [{"type": "image_url", "image_url": {}}])], "a part of the type image_url"),
        ([{**USER, "tool_calls": CALL["tool_calls"]}], "which only an assistant does"),
        ([{**ANSWER, "tool_calls": [{"name": "x"}]}], "a tool call without a function"),
        ([{**RESULT, "name": "a\nb"}], "should name its tool in one line"),
        ([{**USER, "more": deep(80)}], "question has values that are nested too deeply"),
    ],
)
def test_what_cant_be_shown_is_refused_by_name(messages, sentence):
    with pytest.raises(Unusable) as refused:
        checked(messages, "question")
    assert sentence in str(refused.value)


def test_text_parts_are_one_content_and_other_keys_are_told():
    parts = [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    message = {**said("user", parts), "name": "gpt-4", "num_tokens": 3}
    assert text_of(checked([message], "question"), "question") == "A\nB"
    assert other_keys([message, RESULT]) == {"name", "num_tokens"}


def test_what_two_conversations_share_ends_before_an_assistant():
    first = [USER, ANSWER, said("user", "And?"), said("assistant", "One.")]
    second = [USER, ANSWER, said("user", "And?"), said("assistant", "Two.")]
    assert parted(first, second) == (first[:3], first[3:], second[3:])
    # Neither equal answers nor other questions afterwards leave a response without an answer.
    assert parted([USER, ANSWER], [USER, ANSWER]) == ([USER], [ANSWER], [ANSWER])
    other = [USER, ANSWER, said("user", "Or?"), said("assistant", "Two.")]
    assert parted(first, other) == ([USER], first[1:], other[1:])


@pytest.mark.parametrize(
    "second", [[said("user", "How?"), ANSWER], [ANSWER], [said("system", "x"), USER, ANSWER]]
)
def test_conversations_with_other_beginnings_share_nothing(second):
    with pytest.raises(Unusable, match="begin with other questions"):
        parted([USER, ANSWER], second)


def test_a_whole_conversation_is_cut_after_its_question():
    assert after([USER], [{**USER, "id": "x"}, ANSWER]) == [ANSWER]
    assert after([USER], [said("user", "How?"), ANSWER]) is None
    assert after([USER], [USER]) is None


def test_numbers_of_a_file_are_numbers_again():
    value = [{"n": NumberText("12"), "x": NumberText("0.5"), "t": "12", "big": NumberText("1e999")}]
    assert dumped(value) == '[{"n":12,"x":0.5,"t":"12","big":"1e999"}]'


def test_a_plain_text_beside_a_list_is_a_single_turn():
    packed = dumped({"question": [said("system", "Be brief."), USER]})
    by_field = turns_by_field(("…", "Yes.", "No."), packed)
    assert [turn.speaker for turn in by_field["question"]] == ["System", "User"]
    assert [turn.text for turn in by_field["response_2"]] == ["No."]


MESSAGES = st.lists(
    st.builds(said, st.sampled_from(["system", "user", "assistant", "tool"]), st.text(max_size=20)),
    min_size=1,
    max_size=5,
)


@given(MESSAGES)
def test_every_content_is_in_the_text_form_and_comes_back_from_storage(messages):
    text = text_of(checked(messages, "question"), "question")
    for turn in turns(messages):
        for line in turn.text.split("\n"):
            assert line in text or line.strip()[1:] in text
    assert unpacked(dumped({"question": messages})) == {"question": messages}


@given(MESSAGES, MESSAGES, MESSAGES)
def test_both_orders_share_the_same_and_nothing_is_lost(shared, first, second):
    asked = [USER, *shared]
    ones, others = [*asked, ANSWER, *first], [*asked, ANSWER, *second]
    question, own, other = parted(ones, others)
    assert parted(others, ones) == (question, other, own)
    assert (question + own, question + other) == (ones, others)
    assert own[0]["role"] == other[0]["role"] == "assistant"
