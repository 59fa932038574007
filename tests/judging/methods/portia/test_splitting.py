import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judging.methods.portia.alignment import length_aligned, semantically_aligned
from judging.methods.portia.splitting import boundaries


def parts(text, limit=100):
    cuts = (0, *boundaries(text, limit), len(text))
    return [text[start:stop] for start, stop in pairwise(cuts)]


# The broken bars mark where a text may be cut.
CASES = {
    "abbreviations and numbers": "Dr. Smith paid $3.50 for tea. ¦He left.",
    "names with a full stop inside": "Use Node.JS and ASP.NET. ¦See example.com. ¦OK?",
    "list items, whose number is no sentence": "1. Sleep well.\n¦2) Eat well. ¦Often.\n¦- Walk",
    "headings and paragraphs": "# Why. ¦It works\n¦Because it does\n\n¦and so\non. ¦Yes.",
    "a line that introduces": "Do this:\n¦Open it\nand look.",
    "bold text that ends a sentence": "**It works.** ¦Then *stop.* ¦Go on.",
    "quotations": 'He said: "Hi there. You?" ¦Then he left.',
    "white space stays on the left": "  One here.  ¦Two here.\n\n\n¦Three.   ",
    "Chinese and Japanese": "你好。¦世界！¦「他说。」¦好的？¦猫がいる。¦犬も",
    "Arabic and Hindi": "كيف حالك؟ ¦نعم.\n¦नमस्ते। ¦यह है।",
    "Thai and Lao": "สวัสดีครับ ¦วันนี้อากาศดี ¦ผมจะไปตลาด 3 แห่ง ¦ສະບາຍດີ ¦ຂອບໃຈ",
    "Khmer and Tibetan": "សួស្តី។ ¦សុខសប្បាយទេ? ¦ចាស។ ¦བཀྲ་ཤིས། ¦བདེ་ལེགས།",
    "mixed languages": "He wrote 你好。¦Then he left. ¦再见！",
    "an emoji is no sentence": "Great! ¦Thank you! 😀",
    "signs of more than one character": "Yes‼️ ¦No⁉️ ¦👩🏽‍🚀 Go!",
    "characters outside the first plane": "Hi 👍👍. ¦Yes 𝒳𝒳. ¦No.",
    "a table by its rows": "Text.\n¦| a. b | c |\n|---|---|\n¦| 1. x | 2 |\n¦Done.",
    "Windows line ends": "One here.\r\n\r\n¦Two here.\r\n¦Three.",
    "inline code and links": "Call `a.b. c`. ¦See [it](http://a.b/c?d. E). ¦Done.",
}


@pytest.mark.parametrize("marked", CASES.values(), ids=CASES.keys())
def test_responses_are_cut_between_sentences(marked):
    assert parts(marked.replace("¦", "")) == marked.split("¦")


@pytest.mark.parametrize("text", ["", "   ", "\n\n", "One only.", "...", "😀 😀", "No end"])
def test_what_holds_one_sentence_or_none_is_not_cut(text):
    assert boundaries(text) == ()


PIECES = st.lists(
    st.one_of(
        st.text(max_size=12),
        st.sampled_from(
            [
                "A cat sat. ",
                "Why?\n",
                "- ",
                "1. ",
                "```python\n",
                "```\n",
                "x = 1\n",
                "你好。",
                "**",
            ]
        ),
    ),
    max_size=14,
).map("".join)


@settings(max_examples=300)
@given(PIECES)
def test_any_text_is_cut_into_parts_that_join_to_it(text):
    cuts = boundaries(text)
    assert list(cuts) == sorted(set(cuts))
    assert all(0 < cut < len(text) and not text[cut].isspace() for cut in cuts)
    assert all(part.strip() for part in parts(text)) or not cuts


@settings(max_examples=150)
@given(PIECES, PIECES, st.integers(2, 4))
def test_aligned_parts_of_any_two_texts_join_to_them(one, two, k):
    given_texts = (one, boundaries(one), two, boundaries(two), k)
    for found in (length_aligned(*given_texts), semantically_aligned(*given_texts)):
        if found is not None:
            assert ("".join(found.parts_1), "".join(found.parts_2)) == (one, two)
            assert len(found.parts_1) == len(found.parts_2) == k


def test_lone_surrogates_are_kept():
    text = "Half \ud83d here. Another sentence."
    assert parts(text) == ["Half \ud83d here. ", "Another sentence."]


def test_the_320_answers_of_four_models_join_exactly(answers):
    n_cut = 0
    for by_question in answers.values():
        for text in by_question.values():
            pieces = parts(text)
            assert "".join(pieces) == text
            assert len(pieces) <= 100
            n_cut += len(pieces) > 2
    # An answer of one or two sentences can't be split in three; most are longer.
    assert n_cut > 280


def test_neighbours_of_a_long_text_are_merged_to_the_cap():
    text = "".join(f"Sentence number {i} is here. " for i in range(950))
    pieces = parts(text)
    assert len(pieces) == 100
    assert "".join(pieces) == text
    lengths = sorted(map(len, pieces))
    assert lengths[-1] < 1.5 * lengths[0]
    assert len(parts(text, limit=7)) == 7


def test_as_many_sentences_as_the_cap_are_not_merged():
    text = "Here it is. " * 100
    assert len(parts(text)) == 100
    assert {part.strip() for part in parts(text)} == {"Here it is."}


@pytest.mark.parametrize(
    "text",
    ["\n" * 20_000, "1. " * 10_000, "...*" * 10_000 + "x", "```a`\n" * 5_000, "```\n" * 5_000],
    ids=["line breaks", "numbers", "full stops", "backquotes", "fences"],
)
def test_odd_texts_take_no_longer_than_others(text):
    started = time.process_time()
    cuts = boundaries(text)
    # Quadratic time would be tens of seconds.
    assert time.process_time() - started < 2
    assert len(cuts) < 100


def test_a_paragraph_of_any_length_is_read():
    text = "This is a sentence of mine. " * 2_000
    assert len(boundaries(text, limit=5_000)) > 1_990
