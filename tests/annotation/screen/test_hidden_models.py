"""A protocol may hide models' names: on the screen only, in every view, and not in the question."""

import pytest

from annotation.queue.queue import claim_next
from annotation.results.tables.exports import label_rows
from annotation.rounds.opening import RoundSettings, open_round
from tests.factories import make_annotator, make_examples

pytestmark = pytest.mark.django_db
TEXTS = {
    "question": "Is maple-7b a tree?",
    "response_1": "I am maple-7b, not birch-3b. `maple_7b`",
    "response_2": "No. As Birch, I know.",
    "model_1": "maple-7b",
    "model_2": "birch-3b",
}


@pytest.fixture
def shown(client, project, annotator):
    """Opens the first pair of a round, in one view, as an annotator sees it."""

    def shown(view):
        make_examples(project, 1, **TEXTS)
        round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
        person = annotator.annotators.first() or make_annotator(project, user=annotator)
        token = claim_next(round_, person).token
        client.force_login(annotator)
        return client.get(f"/annotate/{token}?view={view}").content.decode()

    return shown


@pytest.mark.parametrize("view", ["rendered", "raw", "differences"])
def test_names_are_hidden_in_the_responses_in_every_view(project, shown, view):
    project.hide_models = True
    project.save()
    page = shown(view)
    responses = page.split('class="side-tabs"', 1)[1].replace("<mark>", "").replace("</mark>", "")
    assert "model name hidden" in responses
    for name in ("maple-7b", "maple_7b", "birch"):
        assert name not in responses.lower()
    assert "maple-7b" in page.split('class="side-tabs"', 1)[0]
    (row,) = label_rows(project, None, names=False)
    assert row["response_1"] == TEXTS["response_1"]


def test_names_stay_without_the_setting(shown):
    assert "hidden]" not in shown("rendered")


def test_an_open_round_keeps_what_it_showed(project, shown):
    page = shown("rendered")
    project.hide_models = True
    project.save()
    assert "maple-7b, not birch-3b" in page
