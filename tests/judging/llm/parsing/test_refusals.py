"""Replies without a verdict: what they are instead."""

import pytest

from judging.llm.parsing.parse import Status, parse
from judging.llm.prompts.templates import template
from tests.judging.llm.parsing.replies import REFUSED, TRUNCATED, UNPARSED, lines, read

REFUSALS = [
    "I'm sorry, but I can't help with rating this content.",
    "I’m sorry, but I cannot assist with that.",
    "Sorry, I can't do that.",
    "I apologize, but I am unable to evaluate these responses.",
    "I cannot provide a comparison of this content.",
    "As an AI language model, I cannot judge this.",
    "I must decline to evaluate this.",
    "I can't score responses of this kind.",
    "Lo siento, pero no puedo ayudar con eso.",
    "Je suis désolé, mais je ne peux pas évaluer ce contenu.",
    "Es tut mir leid, aber ich kann diese Inhalte nicht bewerten.",
    "Mi dispiace, ma non posso aiutarti.",
    "Desculpe, mas não posso ajudar com isso.",
    "Извините, я не могу оценить это.",
    "很抱歉，我无法评估这些内容。",
    "对不起，我不能提供帮助。",
    "申し訳ありませんが、お手伝いできません。",
    "죄송합니다. 도와드릴 수 없습니다.",
    "عذراً، لا أستطيع المساعدة.",
    "क्षमा करें, मैं इसमें मदद नहीं कर सकता।",
    "Üzgünüm, bu konuda yardımcı olamam.",
    "Xin lỗi, tôi không thể giúp.",
    "Przepraszam, nie mogę tego ocenić.",
    "Het spijt me, maar daar kan ik niet mee helpen.",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_is_known_in_many_languages(text):
    assert read("faireval-table3", text) is REFUSED
    assert read("portia-table13", text) is REFUSED


def test_a_verdict_after_an_apology_is_a_verdict():
    assert read("faireval-table3", "I'm sorry, I can't be sure, but:\n" + lines(8, 7)) == (8, 7)


@pytest.mark.parametrize(
    "text",
    [
        "Assistant 1 says: I am sorry, I cannot help. Assistant 2 helps.",
        "The first one opens with \"I'm sorry, but I can't help\" and stops.",
        "Both are polite. " * 20 + "I'm sorry, but I can't help.",
    ],
)
def test_speaking_of_a_response_that_declines_is_no_refusal(text):
    assert read("faireval-table3", text) is UNPARSED


def test_what_the_endpoint_says_of_the_reply_comes_first():
    score = template("faireval-table3")
    assert parse(score, lines(8, 7), "content_filter").status is Status.FILTERED
    assert parse(score, "", "refusal").status is REFUSED
    assert parse(score, None, "stop", refusal="I can't.").status is REFUSED
    assert parse(score, lines(8, 7), None).status is Status.VALID
    assert parse(score, "Both are", "MAX_TOKENS").status is TRUNCATED
    assert parse(score, None, "sensitive").status is Status.FILTERED


@pytest.mark.parametrize("reason", ["error", "network_error", "insufficient_system_resource"])
def test_a_model_that_failed_while_it_wrote_is_an_error_unless_it_had_judged(reason):
    assert read("faireval-table3", "Both are", reason) is Status.ERROR
    assert read("faireval-table3", lines(8, 7), reason) == (8, 7)
