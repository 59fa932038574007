"""No byte that an annotator is served tells whose response stands where, or what anybody thinks."""

import re
from decimal import Decimal

import pytest
from django.contrib.staticfiles import finders
from django.db import connection
from django.test.utils import CaptureQueriesContext

from annotation.models import Draft, Item, Selection
from annotation.queue.queue import claim_next
from annotation.rounds.opening import RoundSettings, open_round
from annotation.screen.hand import address_of
from annotation.votes.voting import record_vote
from tests.factories import make_examples, make_run, make_verdict

SECRETS = [
    "maple-7b",
    "birch-3b",
    "generic-secret",
    "external-",
    "0.6365",
    "1.0986",
    "6.17",
    "bpde",
    "rank",
    "audit",
    "attention",
    "gold",
    "evidence",
    "verdict",
    "judge",
    "gpt-4 with mec",
    "What Ben thinks",
    "benjamin",
    "left_response",
    "model_1",
]
JUDGE_TABLES = re.compile(r'"judging_(verdict|run|call|sample|parse)"')
WHOSE = re.compile(r'"(model_1|model_2|external_id|gold_label)"')


@pytest.fixture
def round_(project, other_annotator):
    """Selected, audit and check items with the same texts, and a vote by somebody else on each."""
    texts = {
        "question": "Which tree?",
        "response_1": "An oak.",
        "response_2": "An elm.",
        "category": "generic-secret",
    }
    examples = make_examples(project, 6, **texts)
    checks = make_examples(project, 2, **texts, is_check=True, gold_label="win")
    for number, example in enumerate(examples + checks):
        example.external_id = f"external-{number}"
        example.save()
    run = make_run(project, name="GPT-4 with MEC")
    for example, bpde in zip(examples, (1.0986, 0.6365, 0.6365, 0.0, 0.0, 0.0), strict=True):
        make_verdict(run, example, bpde, cs_1=Decimal("6.17"))
    settings = RoundSettings(beta=Decimal(50), votes=2, audit=2)
    round_ = open_round(project, None, run, settings)
    ben = other_annotator.annotators.get()
    ben.name = "benjamin"
    ben.save()
    while isinstance(draft := claim_next(round_, ben), Draft):
        record_vote(draft, {"overall": "left"}, "What Ben thinks")
    return round_


def mask(answer):
    """The page without what is drawn anew for each page or pair."""
    text = answer.content.decode()
    for secret in re.findall(r'data-token="([\w-]+)"', text):
        text = text.replace(secret, "TOKEN")
    text = re.sub(r'(csrfmiddlewaretoken" value="|X-CSRFToken": ")\w+', r"\1CSRF", text)
    text = re.sub(r'<span class="own-progress".*?</span></span>', "", text, flags=re.DOTALL)
    return re.sub(r'<div id="messages".*?</div>', "", text, flags=re.DOTALL)


@pytest.fixture
def walk(client, annotator, round_):
    """Everything that is answered on the way through the round: (address, answer)."""
    client.force_login(annotator)
    answers = []

    def ask(method, url, **fields):
        answer = getattr(client, method)(url, fields or None)
        answers.append((url, answer))
        return answer

    def walk():
        ask("get", "/annotate/")
        while (handed := ask("get", address_of(round_))).status_code == 302:
            item = handed.url
            token = item.rsplit("/", 1)[1]
            for path in ("", "/ahead", "/texts?view=raw", "/texts?view=differences"):
                ask("get", item + path)
            for what in ("draft", "beat", "flag", "skip", "unskip", "vote", "back"):
                fields = {"token": token, "reason": "odd", "overall": "tie", "comment": "mine"}
                ask("post", f"{item}/{what}", **fields)
            ask("get", item)
        return answers

    return walk


def test_nothing_served_names_what_must_stay_hidden(walk):
    answers = walk()
    assert len(answers) > 80
    for url, answer in answers:
        served = "\n".join(
            [url, *(f"{name}: {value}" for name, value in answer.items())]
            + [str(morsel) for morsel in answer.cookies.values()]
            + [answer.content.decode()]
        ).lower()
        # Random letters may spell anything, and the product's own name holds one of the words.
        served = re.sub(r"[\w-]{32,}|fairjudge", "", served)
        for secret in SECRETS:
            assert secret.lower() not in served, f"{secret} in {url}"


def test_items_of_every_kind_look_alike(walk, round_):
    pages: dict[str, set[str]] = {}
    for url, answer in walk():
        if re.fullmatch(r"/annotate/[\w-]{32}", url) and b"You voted" not in answer.content:
            token = url.rsplit("/", 1)[1]
            draft = Draft.objects.select_related("item__selection").get(token=token)
            page = mask(answer)
            if draft.left_response == 2:
                page = (
                    page.replace("An oak", "…").replace("An elm", "An oak").replace("…", "An elm")
                )
            # Whether there is a vote to go back to is the person's own affair, and so is how long
            # ago they had the item in hand.
            page = re.sub(r'<button name="do" value="back".*| data-age="[\d.]+"', "", page)
            pages.setdefault(draft.item.selection.kind, set()).add(page)
    assert set(pages) == {"top", "audit", "check"}
    assert len(set.union(*pages.values())) == 1


def test_no_query_of_the_screen_reads_the_judge_or_whose_the_responses_are(walk):
    with CaptureQueriesContext(
        connection,
    ) as queries:
        walk()
    asked = [query["sql"] for query in queries if query["sql"].startswith("SELECT")]
    assert asked
    read = [sql.split(" FROM ")[0] for sql in asked]
    assert [sql for sql in asked if JUDGE_TABLES.search(sql)] == []
    assert [columns for columns in read if WHOSE.search(columns)] == []


def test_the_pages_scripts_know_nothing_to_tell(db):
    for name in ("js/annotate.js", "css/annotate.css"):
        with open(finders.find(name), encoding="utf-8") as file:
            text = file.read().lower()
        assert [word for word in ("bpde", "model_", "verdict", "audit") if word in text] == []


def test_every_kind_was_there_to_be_hidden(round_):
    kinds = Selection.objects.values_list("kind", flat=True)
    assert set(kinds) == {"top", "audit", "check"}
    assert Item.objects.filter(bpde__gt=0).exists()
