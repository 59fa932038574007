"""A protocol in several languages: who reads which, and what is stored, exported and read back."""

import csv
import re

import pytest
from django.test import Client
from django.urls import reverse

from annotation.models import CrowdLink, CrowdSubmission, Protocol, Vote
from annotation.people import crowds
from annotation.people.background import read_questions, written
from annotation.results.tables.exports import ExportRequest, export
from annotation.rounds.opening import RoundSettings, current_protocol, open_round
from annotation.votes.imports import import_votes
from judging.core.errors import UserError
from judging.projects.models import AuditEvent, Preferences
from tests.annotation.crowd import address, set_up
from tests.annotation.screen.posting import ALL, first_item, post, text_of
from tests.factories import make_annotator, make_examples, make_project

pytestmark = [pytest.mark.django_db, pytest.mark.databases]

# A name may hold a colon, and a text what would be markup.
ASKED = {
    "question_asked": "Which one is better?",
    "guidelines": "Read **both**.",
    "criteria": "style: tone\nstyle",
    "reason_tags": "too long",
}
IN_GERMAN = {
    "translations-de-question_asked": "Welche <b>ist</b> besser?",
    "translations-de-guidelines": "Lies **beide**.",
    "translations-de-names": "style: Stil\r\nstyle: tone: Ton\r\ntoo long: zu lang",
}
STORED = {
    "de": {
        "question_asked": "Welche <b>ist</b> besser?",
        "guidelines": "Lies **beide**.",
        "names": {"style: tone": "Ton", "style": "Stil", "too long": "zu lang"},
    }
}


def sent_by(page, **changed):
    """What a browser sends for a form that was shown."""
    found = {}
    for field in page.context["form"]:
        value = field.value()
        found |= value if isinstance(value, dict) else {field.html_name: value}
    # A box that isn't ticked is not sent.
    ticked = {name: value for name, value in found.items() if value is not False}
    return {name: "" if value is None else value for name, value in ticked.items()} | changed


@pytest.fixture
def save(as_owner, project):
    def save(**fields):
        url = reverse("settings", args=[project.slug])
        answer = as_owner.post(url, sent_by(as_owner.get(url), **fields))
        project.refresh_from_db()
        return answer

    return save


@pytest.fixture
def translated(save, project):
    before = current_protocol(project)
    assert save(**ASKED, **IN_GERMAN, language="en", content_language="ja").status_code == 302
    assert project.translations == STORED
    assert current_protocol(project) != before
    return project


def test_each_person_reads_their_language_or_the_default(client, translated, annotator):
    make_examples(translated, 2)
    round_ = open_round(translated, None, None, RoundSettings(everything=True, votes=3))
    client.force_login(annotator)
    token = first_item(client, round_)
    # The project is in English, whatever the browser asks for.
    page = text_of(client.get(f"/annotate/{token}", headers={"Accept-Language": "de"}))
    assert '<html lang="en"' in page
    assert 'lang="en">Which one is better?' in page
    assert 'lang="ja" data-part="question"' in page
    post(client, token, overall="left", **{"criterion-1": "left", "criterion-2": "tie"})
    assert Vote.objects.get(annotator__user=annotator).language == "en"

    german = make_annotator(translated, "ben")
    Preferences.objects.create(user=german.user, language="de")
    client.force_login(german.user)
    token = first_item(client, round_)
    page = text_of(client.get(f"/annotate/{token}"))
    assert '<html lang="de"' in page
    assert 'lang="de">Welche &lt;b&gt;ist&lt;/b&gt; besser?' in page
    assert "Lies <strong>beide</strong>." in page
    assert [name in page for name in (">Ton<", ">Stil<", ">zu lang<")] == [True] * 3
    assert [name in page for name in (">style", "too long", "Which one")] == [False] * 3
    missing = post(client, token, script=True, overall="left", **{"criterion-1": "left"})
    assert "Stil" in missing.text
    assert "style" not in missing.text
    said = {"criterion-1": "left", "criterion-2": "tie", "reason-1": "1"}
    post(client, token, overall="left", **said)
    vote = Vote.objects.get(annotator=german)
    assert vote.language == "de"
    assert vote.answer == {
        "overall": "left",
        "criteria": {"style: tone": "left", "style": "tie"},
        "reasons": ["too long"],
    }
    # Nobody translated it to French, so the page is, and the texts say what they are.
    french = make_annotator(translated, "eve")
    Preferences.objects.create(user=french.user, language="fr")
    client.force_login(french.user)
    page = text_of(client.get(f"/annotate/{first_item(client, round_)}"))
    assert '<html lang="fr"' in page
    assert 'lang="en">Which one is better?' in page


def test_the_fingerprint_follows_translations_and_stays_without(project):
    before = current_protocol(project)
    project.language, project.content_language = "de", "ja"
    assert current_protocol(project) == before
    project.translations = {"fr": {"question_asked": "Q", "guidelines": "", "names": {}}}
    of_french = current_protocol(project)
    project.language = "es"
    of_spanish = current_protocol(project)
    assert len({before.digest, of_french.digest, of_spanish.digest}) == 3
    assert (of_spanish.language, of_spanish.translations) == ("es", project.translations)
    project.translations = {}
    assert current_protocol(project) == before
    assert Protocol.objects.count() == 3


def test_the_page_shows_what_is_stored_and_the_trail_what_changed(as_owner, save, translated):
    page = as_owner.get(reverse("settings", args=[translated.slug])).text
    assert "Welche &lt;b&gt;ist&lt;/b&gt; besser?</textarea>" in page
    assert re.search(r'lang="de" dir="auto">Deutsch</span> <span class="quiet">translated', page)
    event = AuditEvent.objects.get(action="settings changed")
    assert event.detail["translations"] == {"before": {}, "now": STORED}
    save()
    assert AuditEvent.objects.filter(action="settings changed").count() == 1
    # A criterion that goes takes its translations along.
    assert save(criteria="style").status_code == 302
    assert translated.translations["de"]["names"] == {"style": "Stil", "too long": "zu lang"}
    assert save(**dict.fromkeys(IN_GERMAN, "")).status_code == 302
    assert translated.translations == {}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"translations-de-guidelines": ""}, "differs from what is asked above in: Guidelines"),
        ({"translations-de-names": "style: Stil"}, "above in: style: tone, too long"),
        ({"translations-de-names": "stile: Stil"}, "“stile: Stil” isn&#x27;t a translation"),
        (
            {"translations-de-names": "style: S\nstyle: tone: S\ntoo long: x"},
            "give each criterion and reason its own name",
        ),
        ({"translations-de-names": "style: " + "x" * 61}, "a short name of at most 60"),
        ({"translations-de-question_asked": "x" * 301}, "at most 300 characters"),
        ({"language": "de"}, "Deutsch is the language of the texts above"),
        ({"content_language": "deutsch, english"}, "Give a language tag"),
    ],
)
def test_half_a_translation_is_refused_and_what_was_typed_is_kept(save, project, changed, why):
    answer = save(**(ASKED | IN_GERMAN | changed))
    assert answer.status_code == 422
    assert why in answer.text
    assert '<details class="translation" open>' in answer.text or "translations" not in str(changed)
    assert project.translations == {}


def test_a_vote_keeps_its_language_through_a_file(translated, annotator, tmp_path, client):
    make_examples(translated, 1)
    round_ = open_round(translated, None, None, ALL)
    Preferences.objects.create(user=annotator, language="de")
    client.force_login(annotator)
    said = {"criterion-1": "left", "criterion-2": "tie"}
    post(client, first_item(client, round_), overall="left", **said)
    path = tmp_path / "votes.csv"
    request = ExportRequest("votes", names=True)
    path.write_bytes(b"".join(export(translated, None, None, request)))
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[-2:] == ["language", "fairjudge_escape"]
    assert rows[0]["language"] == "de"
    other = make_project("other")
    make_examples(other, 1)
    import_votes(other, None, path)
    assert Vote.objects.get(example__project=other).language == "de"
    # Other programs say in such a column what the texts are in.
    foreign = tmp_path / "foreign.csv"
    head = "external_id,annotator,label,language"
    foreign.write_text(f"{head}\n{rows[0]['external_id']},zoe,win,English\n")
    import_votes(other, None, foreign)
    assert Vote.objects.get(annotator__name="zoe").language == ""
    # One of a newer FairJudge is refused by its line, not lost.
    exported = foreign.read_text().replace(head, f"{head},example_votes_n").replace("zoe", "eve")
    foreign.write_text(exported.replace("English", "ja,1"))
    with pytest.raises(UserError, match="line 2: language should be en, de"):
        import_votes(other, None, foreign)
    assert not Vote.objects.filter(annotator__name="eve").exists()


def test_people_of_a_panel_agree_in_their_language(as_owner, owner, project):
    make_examples(project, 2)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2))
    set_up(round_, owner)
    page = reverse("round_crowd", args=[project.slug, round_.number])
    sent = sent_by(as_owner.get(page), **{"translations-de-consent": "Wir zahlen **9 EUR**."})
    assert as_owner.post(page, sent).status_code == 302
    link = CrowdLink.objects.get()
    assert link.translations == {"de": {"consent": "Wir zahlen **9 EUR**."}}
    person = Client()
    at = address(link)
    german = text_of(person.get(at, headers={"Accept-Language": "de-AT,en;q=0.5"}))
    assert 'lang="de"><p dir="auto">Wir zahlen <strong>9 EUR</strong>.' in german
    french = text_of(person.get(at, headers={"Accept-Language": "fr"}))
    assert "Wir zahlen" not in french


@pytest.mark.parametrize(("tag", "said"), [("de", "Ihre Rolle"), ("en", "Your role in this")])
def test_somebody_without_the_right_is_told_so_in_their_language(client, annotator, tag, said):
    client.force_login(annotator)
    answer = client.get("/p/vicuna/settings", headers={"Accept-Language": tag})
    assert answer.status_code == 403
    assert said in text_of(answer)


TERMS_ASKED = "choice: Do you read English? | yes | no!\nnumber: How old are you? | 18 | 99"
GEFRAGT = "choice: Lesen Sie Englisch? | ja | nein!\nnumber: Wie alt sind Sie? | 18 | 99"
TERMS_IN_GERMAN = {
    "translations-de-consent": "Wir zahlen.",
    "translations-de-questions": GEFRAGT,
    "translations-de-completion_text": "Danke **sehr**.",
    "translations-de-screened_text": "Auf Wiedersehen.",
}


def test_people_of_a_panel_answer_in_their_language_and_the_original_is_stored(
    as_owner, owner, project
):
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=3))
    texts = {"completion_text": "Thank you **much**.", "screened_text": "Goodbye."}
    link = set_up(round_, owner, questions=written(read_questions(TERMS_ASKED)), **texts)
    page = reverse("round_crowd", args=[project.slug, round_.number])
    for wrong, why in (
        ({"translations-de-screened_text": ""}, "in: Text for people who were screened out"),
        ({"translations-de-questions": GEFRAGT.split("\n")[0]}, "2 questions above, and 1 here"),
        ({"translations-de-questions": GEFRAGT.replace("!", "")}, "in more than its words"),
        ({"translations-de-questions": GEFRAGT.replace("99", "90")}, "in more than its words"),
    ):
        refused = as_owner.post(page, sent_by(as_owner.get(page), **TERMS_IN_GERMAN | wrong))
        assert (refused.status_code, why in text_of(refused)) == (422, True)
    assert as_owner.post(page, sent_by(as_owner.get(page), **TERMS_IN_GERMAN)).status_code == 302
    # What is stored comes back as it was written, so that saving it again changes nothing.
    link.refresh_from_db()
    before = link.translations
    assert as_owner.post(page, sent_by(as_owner.get(page))).status_code == 302
    link.refresh_from_db()
    assert link.translations == before
    person, german = Client(), {"Accept-Language": "de"}
    shown = text_of(person.get(address(link), headers=german))
    assert '<bdi lang="de">Lesen Sie Englisch?</bdi>' in shown
    in_arabic = text_of(person.get(address(link), headers={"Accept-Language": "ar"}))
    assert '<html lang="ar" dir="rtl">' in in_arabic
    # English in a page that runs the other way keeps its question mark at its end.
    for text in ("How old are you?", "yes"):
        assert f'<bdi lang="">{text}</bdi>' in in_arabic
    assert 'value="no"' in shown
    assert "How old" not in shown
    given = {"consent": "on", "question-0": "yes", "question-1": "30"}
    assert person.post(address(link), given, headers=german).status_code == 302
    came = CrowdSubmission.objects.get(worker_id="worker-1")
    assert came.answers == {"Do you read English?": "yes", "How old are you?": "30"}
    crowds.end(came, CrowdSubmission.State.COMPLETE)
    end = reverse("crowd_own")
    assert 'lang="de"><p dir="auto">Danke <strong>sehr</strong>.' in text_of(
        person.get(end, headers=german)
    )
    assert "Thank you <strong>much</strong>." in text_of(
        person.get(end, headers={"Accept-Language": "fr"})
    )
    out = Client().post(address(link, "worker-2"), given | {"question-0": "no"}, headers=german)
    assert "Auf Wiedersehen." in text_of(out)
