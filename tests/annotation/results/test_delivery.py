"""A delivered report opens anywhere, and anyone can verify it from the file alone."""

import json
import zipfile
from decimal import Decimal

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from annotation.models import Draft
from annotation.queue import claim_next
from annotation.results.verification import verify
from annotation.rounds import RoundSettings, open_round
from annotation.voting import record_vote
from tests.factories import make_annotator, make_examples, make_run, make_verdict


@pytest.fixture
def audited(project):
    """A run with two others beside it, and a round with an audit that a person has finished."""
    run = make_run(project)
    others = [make_run(project, k=1, method="vanilla"), make_run(project, model="another")]
    for example in make_examples(project, 80):
        place = {"rank": example.number + 1}
        make_verdict(run, example, 1.0 if example.number < 16 else 0.0, **place)
        for other in others:
            make_verdict(
                other, example, 0.1, label="lose" if example.number % 3 else "win", **place
            )
    project.primary_run = run
    project.save()
    person = make_annotator(project)
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=1, audit=40))
    while isinstance(draft := claim_next(round_, person), Draft):
        record_vote(draft, {"overall": "left" if draft.left_response == 1 else "right"})
    return run


@pytest.fixture
def delivered(project, audited, tmp_path):
    path = tmp_path / "report.zip"
    call_command("report", project.slug, output=path)
    return path


def rewritten(path, name, change):
    """The same ZIP with one file changed."""
    with zipfile.ZipFile(path) as archive:
        files = {one: archive.read(one) for one in archive.namelist()}
    files[name] = change(files[name])
    with zipfile.ZipFile(path, "w") as archive:
        for one, content in files.items():
            archive.writestr(one, content)
    return path


def test_what_was_delivered_holds(delivered, capsys):
    assert verify(delivered) == []
    call_command("verify", delivered)
    assert "every number" in capsys.readouterr().out


def test_verification_needs_no_database(delivered, django_db_blocker):
    with django_db_blocker.block():
        assert verify(delivered) == []


def test_a_changed_label_is_found(delivered):
    changed = rewritten(delivered, "labels.csv", lambda text: text.replace(b",win,", b",lose,", 1))
    problems = verify(changed)
    assert "labels.csv is not the file that was delivered" in problems
    assert any("certificate is not about these labels" in problem for problem in problems)
    with pytest.raises(CommandError, match="does not hold"):
        call_command("verify", changed)


def test_a_changed_number_is_computed_to_be_wrong(delivered):
    def better(text):
        figures = json.loads(text)
        figures["win_rate"]["people"]["value"] = 0.5
        return json.dumps(figures).encode()

    problems = verify(rewritten(delivered, "report.json", better))
    assert any(problem.startswith("win_rate.people.value is 0.5") for problem in problems)


def test_the_certificate_names_the_labels_that_it_is_about(delivered):
    with zipfile.ZipFile(delivered) as archive:
        found = json.loads(archive.read("certificate.json"))
        hashes = json.loads(archive.read("manifest.json"))["sha256"]
        methods = archive.read("methods.md").decode()
    assert found["certificate"]["issued"] is True
    assert found["labels_sha256"] == hashes["labels.csv"]
    assert "in at most 5 of 100 projects" in methods.lower()


def test_the_page_is_one_file_that_fetches_nothing(project, audited, tmp_path):
    path = tmp_path / "report.html"
    call_command("report", project.slug, output=path)
    page = path.read_text(encoding="utf-8")
    assert page.count("<svg") > 4
    for fetched in ("<script", "<link", "src=", 'href="/', "url("):
        assert fetched not in page


def test_another_file_is_refused(tmp_path, project, audited):
    path = tmp_path / "notes.txt"
    path.write_text("no report")
    with pytest.raises(CommandError, match="not a report"):
        call_command("verify", path)
    with pytest.raises(CommandError, match="not as notes"):
        call_command("report", project.slug, output=path)
