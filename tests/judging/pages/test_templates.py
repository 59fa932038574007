"""Writing a judge template: tried out, kept in versions, never changed under a run."""

import pytest
from django.urls import reverse

from judging.core.errors import UserError
from judging.projects.models import AuditEvent
from judging.runs.engine.working import work_on
from judging.runs.models import JudgeTemplate, Run
from judging.runs.templates import choose_template
from tests.factories import make_examples
from tests.judging.runs.judging import ENDPOINT, loopback, started
from tests.loopback import completion

pytestmark = [pytest.mark.django_db, pytest.mark.databases]

TEXT = """[Question]
{question}

[The Start of Assistant A's response]
{first}
[The End of Assistant A's response]

[The Start of Assistant B's response]
{second}
[The End of Assistant B's response]

Judge by these:
{criteria}
End with [[A]], [[B]] or [[C]]."""
FIELDS = {
    "name": "mine",
    "reply": "verdict_mark",
    "low": "1",
    "high": "10",
    "text": TEXT,
    "sample_reply": "A is right. [[A]]",
}


@pytest.fixture
def researching(client, researcher):
    client.force_login(researcher)
    return client


@pytest.fixture
def write(researching, project):
    def write(button="keep", **fields):
        url = reverse("template_write", args=[project.slug])
        return researching.post(url, FIELDS | fields | {button: "1"})

    return write


def test_a_template_is_kept_with_how_its_reply_is_read(write, project, researcher):
    response = write()
    version = JudgeTemplate.objects.get()
    assert response.url == reverse("template", args=[project.slug, version.pk])
    assert (version.form, version.output["reply"]) == ("relation", "verdict_mark")
    assert (version.text, version.created_by) == (TEXT, researcher)
    assert AuditEvent.objects.filter(action="judge template written").exists()


def test_trying_out_shows_the_prompt_and_the_reading_and_keeps_nothing(write, project):
    make_examples(project, 1, response_1="Say <b>[[A]]</b> to <i>this</i>.")
    html = write("try").content.decode()
    assert not JudgeTemplate.objects.exists()
    assert "Say &lt;b&gt;[·[A]]&lt;/b&gt;" in html
    assert html.count('class="label win"') == html.count('class="label lose"') == 1
    assert "PORTIA can show the responses in parts" in html


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"text": TEXT.replace("{second}", "")}, "The slot {second} is missing."),
        ({"text": TEXT + " {first}"}, "occurs 2 times"),
        ({"text": TEXT + " {secret}"}, "{secret} is not a slot of the form relation"),
        ({"text": TEXT.replace("[[A]]", "A")}, "must ask for an answer with “[[A]]”"),
        ({"sample_reply": "Both are fine."}, "contains no readable verdict. It is unparsed"),
        ({"reply": "score_pair", "low": "9", "high": "2"}, "lowest number must be below"),
        ({"name": "faireval-table3"}, "ships with FairJudge"),
        ({"name": "not a slug"}, "valid"),
        ({"text": "x" * 20_001}, "at most"),
    ],
)
def test_what_does_not_fit_is_refused_in_sentences_and_nothing_is_lost(write, fields, problem):
    response = write(**fields)
    html = response.content.decode().replace("&#x27;", "'")
    assert response.status_code == 422
    assert problem in html
    assert "{question}" in html or "text" in fields
    assert not JudgeTemplate.objects.exists()


def test_a_change_is_a_version_and_the_name_stands_for_the_newest_that_is_not_retired(
    write, researching, project
):
    write()
    write(text=TEXT + "\nBe brief.")
    first, second = JudgeTemplate.objects.order_by("pk")
    assert first.text == TEXT
    chosen = choose_template(project, "mine", "mec_bpc", "relation", local=False)
    assert chosen.text == second.text
    again = write()
    assert again.status_code == 422
    assert "An earlier version of mine is the same" in again.content.decode()
    retire = reverse("template_retire", args=[project.slug, second.pk])
    researching.post(retire)
    chosen = choose_template(project, "mine", "mec_bpc", "relation", local=False)
    assert chosen.text == first.text
    researching.post(reverse("template_retire", args=[project.slug, first.pk]))
    with pytest.raises(UserError, match="There is no template 'mine'"):
        choose_template(project, "mine", "mec_bpc", "relation", local=False)
    researching.post(retire)
    assert JudgeTemplate.objects.get(pk=second.pk).retired_at is None
    assert JudgeTemplate.objects.count() == 2


def test_the_same_text_read_otherwise_is_a_version_too(write, project):
    lines = TEXT.replace("End with [[A]], [[B]] or [[C]].", "Two values in the first line.")
    fields = {"text": lines, "reply": "score_pair", "sample_reply": "8 6\nFine."}
    write(**fields)
    write(**fields | {"high": "20"})
    assert JudgeTemplate.objects.count() == 2


def test_copies_start_from_a_shipped_template_or_from_a_version(write, researching, project):
    url = reverse("template_write", args=[project.slug])
    html = researching.get(url, {"copy": "portia-table15"}).content.decode()
    assert 'value="own-portia-table15"' in html
    assert '<option value="rating_line" selected>' in html
    write()
    html = researching.get(url, {"copy": JudgeTemplate.objects.get().pk}).content.decode()
    assert 'value="mine"' in html
    assert "A is right. [[A]]" in html
    assert researching.get(url, {"copy": "nothing"}).status_code == 404


def test_the_list_names_own_and_shipped_ones_by_as_many_queries(
    write, researching, project, django_assert_max_num_queries
):
    write()
    for n in range(5):
        write(name=f"mine-{n}")
    with django_assert_max_num_queries(8):
        html = researching.get(reverse("templates", args=[project.slug])).content.decode()
    assert html.count("Copy this template") == 9
    assert "mine-4" in html


@pytest.mark.django_db(transaction=True)
def test_a_run_fills_the_criteria_and_keeps_its_own_copy(write, researching, project, settings):
    write()
    project.criteria = ["accuracy", "brevity"]
    project.save()
    make_examples(project, 1)
    with loopback(settings, lambda asked: completion(*["Fine. [[B]]"] * asked.n)) as server:
        run = started(project, form="relation", template="mine", k=1)
        JudgeTemplate.objects.all().delete()
        work_on(run)
    assert (
        "Judge by these:\n- accuracy\n- brevity\n" in server.log[0].body["messages"][0]["content"]
    )
    assert Run.objects.get().template_text == TEXT


def test_a_template_that_asks_for_criteria_is_not_started_without_any(write, project, settings):
    write()
    make_examples(project, 1)
    with loopback(settings), pytest.raises(UserError, match="asks for criteria, and there are no"):
        started(project, form="relation", template="mine", endpoint=ENDPOINT)
    assert not Run.objects.exists()
