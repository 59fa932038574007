"""The demo project's content: what the tutorial and the demo command rely on."""

import csv
import json
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import judging

DEMO = Path(judging.__file__).parent / "demo"


@pytest.fixture(scope="module")
def pairs():
    lines = (DEMO / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def votes():
    with (DEMO / "votes.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def labels(votes):
    by_example = defaultdict(list)
    for vote in votes:
        by_example[vote["external_id"]].append(vote["label"])
    return by_example


def responses(pairs):
    return [pair[name] for pair in pairs for name in ("response_1", "response_2")]


def test_there_are_ten_pairs_by_two_models_in_at_least_six_categories(pairs):
    assert len(pairs) == 10
    assert {(pair["model_1"], pair["model_2"]) for pair in pairs} == {("maple-7b", "birch-3b")}
    assert len({pair["category"] for pair in pairs}) >= 6


def test_every_pair_has_the_same_filled_columns(pairs):
    columns = {
        "external_id",
        "category",
        "question",
        "model_1",
        "response_1",
        "model_2",
        "response_2",
    }
    for pair in pairs:
        assert set(pair) == columns
        assert all(isinstance(value, str) and value.strip() for value in pair.values())


def test_ids_questions_and_responses_are_unique(pairs):
    for texts in (
        [pair["external_id"] for pair in pairs],
        [pair["question"] for pair in pairs],
        responses(pairs),
    ):
        assert [text for text, count in Counter(texts).items() if count > 1] == []


def test_texts_are_short_enough_for_the_local_judge(pairs):
    assert {text for text in responses(pairs) if not 40 <= len(text) <= 900} == set()
    assert max(len(pair["response_1"] + pair["response_2"]) for pair in pairs) < 1200
    lengths = [sum(map(len, (p["question"], p["response_1"], p["response_2"]))) for p in pairs]
    assert sum(lengths) / len(lengths) < 500


def test_the_content_shows_what_the_screen_can_render(pairs):
    texts = responses(pairs)
    assert any("```python\n" in text for text in texts)
    assert any("$$" in text for text in texts)
    assert any("|---|" in text for text in texts)
    assert any(unicodedata.bidirectional(text[0]) == "AL" for text in texts)


def test_three_annotators_vote_once_on_every_pair(pairs, votes):
    expected = {(pair["external_id"], who) for pair in pairs for who in ("amina", "jonas", "wei")}
    given = [(vote["external_id"], vote["annotator"]) for vote in votes]
    assert len(given) == len(set(given))
    assert set(given) == expected


def test_votes_use_the_labels_and_some_carry_a_comment(votes):
    assert {vote["label"] for vote in votes} == {"win", "tie", "lose"}
    assert 5 <= sum(bool(vote["comment"]) for vote in votes) <= 40


def test_two_pairs_are_disputed_and_one_has_no_majority(labels):
    disputed = [external_id for external_id, given in labels.items() if len(set(given)) > 1]
    assert len(disputed) == 2
    assert sum(len(set(given)) == 3 for given in labels.values()) == 1


def test_neither_model_wins_nearly_everything(labels):
    unanimous = Counter(given[0] for given in labels.values() if len(set(given)) == 1)
    assert unanimous["win"] >= 3
    assert unanimous["lose"] >= 3
    assert unanimous["tie"] >= 1


def test_a_longer_response_is_not_usually_the_better_one(pairs, labels):
    """Else a judge that only counts characters would look good on the demo."""
    longer_is_better = []
    for pair in pairs:
        given = set(labels[pair["external_id"]])
        if given in ({"win"}, {"lose"}):
            first_is_longer = len(pair["response_1"]) > len(pair["response_2"])
            longer_is_better.append(first_is_longer == (given == {"win"}))
    assert 0.25 <= sum(longer_is_better) / len(longer_is_better) <= 0.75


def test_the_guidelines_say_how_to_choose_and_what_a_tie_is():
    text = (DEMO / "guidelines.md").read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert 150 <= len(text.split()) <= 350
    for idea in ("**Tie**", "**Length is not quality.**", "correct", "skip"):
        assert idea in text
