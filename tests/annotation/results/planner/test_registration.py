"""A plan is stored unchanged with its hash, and the report says which parts of it were kept."""

import hashlib
import json
from decimal import Decimal

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command

from annotation.models import Item, Preregistration
from annotation.results.delivery.package import deliver
from annotation.results.delivery.verify import verify
from annotation.results.planner.registration import (
    Plan,
    as_file,
    as_markdown,
    check_file,
    register,
)
from annotation.results.planner.sizes import Study
from annotation.results.report.cache import fingerprint
from annotation.results.report.report import report
from annotation.results.sections.analysis import Analysis
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.errors import UserError
from judging.llm.prompts.templates import template
from judging.projects.models import AuditEvent, Role
from tests.factories import (
    make_annotator,
    make_examples,
    make_member,
    make_run,
    make_verdict,
    make_vote,
)

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script> | `x` اختبار"


@pytest.fixture
def judged(project):
    """Twenty ranked pairs, judged by a run with a template of the catalogue."""
    chosen = template("faireval-table3")
    run = make_run(project, template_name=chosen.name, template_hash=chosen.sha256)
    for example in make_examples(project, 20):
        make_verdict(run, example, example.number / 20, rank=20 - example.number)
    return run


def plan(**changes):
    values = {
        "goal": "Which model is better?", "hypotheses": ("maple wins", HOSTILE), "examples": 20,
        "beta": Decimal(20), "audit": 8, "votes": 1, "seed": 7, "templates": ("faireval-table3",),
        "study": Study(win_rate=0.9, ties=0.0, examples=20, votes=1),
        "analyses": ("win_rate", "people"),
    }  # fmt: skip
    return Plan(**values | changes)


def states(version):
    return {part.part: part.state for part in version.parts}


def test_the_hash_is_over_the_document_as_the_docs_say(project, judged):
    user = make_member(project, Role.RESEARCHER, "rosa")
    made = register(project, user, plan())
    # docs/files.md: sorted keys, no spaces, UTF-8.
    kept = json.loads(json.dumps(as_file(made)))
    text = json.dumps(
        kept["preregistration"], sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )
    assert hashlib.sha256(text.encode()).hexdigest() == made.sha256 == kept["sha256"]
    document = kept["preregistration"]
    assert document["existing"] == {
        "examples": 20, "known_labels": 0, "votes": 0, "judgments": 0, "ranked_runs": 1,
        "rounds": 0,
    }  # fmt: skip
    assert document["plan"]["templates"] == [
        {"name": "faireval-table3", "sha256": judged.template_hash}
    ]
    assert len(document["plan"]["protocol"]) == 64
    assert "rosa" not in text
    event = AuditEvent.objects.get(action="plan registered")
    assert (event.actor, event.detail["sha256"], event.detail["votes"]) == ("rosa", made.sha256, 0)
    with pytest.raises(ValueError, match="never changes"):
        made.save()


@pytest.mark.system
def test_the_report_says_what_was_kept_and_what_was_not(project, judged, tmp_path):
    before = fingerprint(project)
    register(project, None, plan())
    assert fingerprint(project) != before
    first = report(Analysis(project, judged)).preregistration.versions[0]
    assert states(first)["Share to review (β)"] == "open"
    settings = RoundSettings(beta=Decimal(20), votes=1, audit=6, seed=7)
    round_ = open_round(project, None, judged, settings)
    people = make_annotator(project, "ana")
    for item in Item.objects.filter(round=round_):
        make_vote(item, people, "win")
    register(project, None, plan(audit=6, goal="Amended"))
    figures = report(Analysis(project, judged))
    newest, first = figures.preregistration.versions
    assert states(first) == {
        "Time of the plan": "kept", "Examples": "kept", "Labelled examples": "open",
        "Share to review (β)": "kept", "Ranking of the review": "kept", "Audit": "deviated",
        "Votes per example": "kept", "Largest share of wrong labels (ε)": "kept",
        "Error of the certificate (α)": "kept", "Audit sizes that are checked": "kept",
        "Seed of the round": "kept", "Protocol": "kept", "Judge template": "kept",
        "Analysis: win rate of the models": "open", "Analysis: agreement of people": "open",
    }  # fmt: skip
    assert (first.kept, first.deviated, first.intact, first.votes) == (11, 1, True, 0)
    # An amendment after the votes says so.
    assert states(newest)["Time of the plan"] == "deviated"
    assert states(newest)["Audit"] == "kept"
    assert newest.votes == 10
    # What was planned is computed again from the ZIP alone.
    for name in ("report.zip", "report.html", "report.tex"):
        deliver(project, judged, None, tmp_path / name)
    assert verify(tmp_path / "report.zip") == []
    page = (tmp_path / "report.html").read_text()
    assert "Was the plan kept?" in page
    assert "<strong>deviated</strong>" in page
    assert "<script>" not in page
    assert r"\textbf{deviated}" in (tmp_path / "report.tex").read_text()


def test_a_change_in_the_database_is_seen(project, judged):
    made = register(project, None, plan())
    changed = made.text.replace('"votes":1', '"votes":5')
    Preregistration.objects.filter(pk=made.pk).update(text=changed)
    (version,) = report(Analysis(project, judged)).preregistration.versions
    assert not version.intact


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"goal": " "}, "goal: "),
        ({"beta": Decimal(20), "everything": True}, "beta: "),
        ({"votes": 0}, "votes: "),
        ({"looks": (60, 30)}, "looks: "),
        ({"analyses": ("other",)}, "There is no analysis other"),
        ({"templates": ("none",)}, "templates: "),
        ({"hypotheses": ("a\0b",)}, "can't be stored"),
    ],
)
def test_what_is_no_plan_is_refused_whole(project, changes, said):
    with pytest.raises(UserError, match=said):
        register(project, None, plan(**changes))
    assert not Preregistration.objects.exists()


def test_a_file_is_checked_against_its_hash_and_the_project(project, judged):
    made = register(project, None, plan())
    file = as_file(made)
    assert check_file(json.dumps(file, indent=4), project).stored == made
    elsewhere = check_file(json.dumps(file))
    assert (elsewhere.holds, elsewhere.stored) == (True, None)
    file["preregistration"]["plan"]["votes"] = 9
    changed = check_file(json.dumps(file), project)
    assert (changed.holds, changed.stored) == (False, None)
    # A new hash makes it a plan, but not one of this project.
    file["sha256"] = changed.sha256
    assert check_file(json.dumps(file), project).stored is None
    deep = '{"preregistration":' + "[" * 200 + "]" * 200 + "}"
    for other in ("", "[]", "{}", "null", '{"preregistration": 1, "sha256": ""}', deep, b"\xff"):
        with pytest.raises(UserError, match="no preregistration"):
            check_file(other, project)


def test_markdown_holds_what_people_wrote_as_text(project, judged):
    text = as_markdown(register(project, None, plan()))
    assert "<script>" not in text
    assert "| Votes per example | 1 |" in text
    assert r"2. \<script\>alert(1)\</script\> \| \`x\` اختبار" in text


@pytest.mark.system
def test_the_page_takes_sizes_over_registers_amends_and_checks(client, project):
    owner = make_member(project, Role.OWNER, "olga")
    make_examples(project, 4)
    client.force_login(owner)
    sizes = client.get("/p/vicuna/sizes?" + SIZES).text
    assert "Put this into a preregistration" in sizes
    link = sizes.split('href="/p/vicuna/preregistration?')[1].split('"')[0]
    page = client.get("/p/vicuna/preregistration?" + link.replace("&amp;", "&")).text
    assert "Labels that each goal needs" in page
    sent = {
        "goal": HOSTILE, "hypotheses": "one\n\ntwo", "sizes": SIZES, "aim": "win_rate",
        "examples": "4", "everything": "on", "votes": "3", "route": "bpde", "epsilon": "10",
        "alpha": "5", "analyses": ["people"], "templates": ["faireval-table1"],
    }  # fmt: skip
    assert client.post("/p/vicuna/preregistration/new", sent | {"votes": "0"}).status_code == 422
    assert (
        client.post("/p/vicuna/preregistration/new", sent | {"sizes": "ties=x"}).status_code == 422
    )
    assert client.post("/p/vicuna/preregistration/new", sent).status_code == 302
    made = Preregistration.objects.get()
    planned = json.loads(made.text)["plan"]
    assert (planned["hypotheses"], planned["everything"], planned["aim"]) == (
        ["one", "two"], True, "win_rate",
    )  # fmt: skip
    assert planned["sizes"]["study"]["ties"] == 0.2
    page = client.get("/p/vicuna/preregistration").text
    assert "<script>alert" not in page
    assert made.sha256 in page
    assert client.post("/p/vicuna/preregistration/new", sent | {"votes": "2"}).status_code == 302
    second = json.loads(Preregistration.objects.get(number=2).text)
    assert second["amends"] == made.sha256
    file = client.get("/p/vicuna/preregistration/1.json").content
    for content, said in ((file, "version 1"), (file.replace(b"two", b"ten"), "was changed")):
        upload = SimpleUploadedFile("plan.json", content)
        checked = client.post("/p/vicuna/preregistration/check", {"file": upload}, follow=True)
        assert said in checked.text
    assert client.get("/p/vicuna/preregistration/3.md").status_code == 404
    client.force_login(make_member(project, Role.OBSERVER))
    assert client.get("/p/vicuna/preregistration").status_code == 200
    assert client.post("/p/vicuna/preregistration/new", sent).status_code == 403


SIZES = (
    "win_rate=60&ties=20&accuracy=80&kappa=0.6&wrong=5&within=0.05&power=80&epsilon=10&examples="
    "&votes=3&minutes=3&wage=7.5"
)


def test_sizes_of_a_pilot_unblind_who_reads_them(client, project, judged):
    register(project, None, plan(study=None))
    owner = make_member(project, Role.OWNER, "olga")
    client.force_login(owner)
    client.get("/p/vicuna/preregistration")
    assert owner.memberships.get().unblinded_at is None
    register(project, None, plan())
    client.get("/p/vicuna/preregistration", follow=True)
    client.post("/p/vicuna/look", {"next": "/p/vicuna/preregistration"})
    assert owner.memberships.get().unblinded_at is not None


def test_the_command_registers_writes_and_verifies(project, judged, tmp_path, capsys):
    file = tmp_path / "plan.json"
    call_command(
        "preregister", "vicuna", goal="So?", hypothesis=["h"], beta=Decimal(20), votes=2,
        aim="better", win_rate=Decimal("0.7"), template=["faireval-table1"], output=file, json=True,
    )  # fmt: skip
    told = json.loads(capsys.readouterr().out)
    assert (told["number"], told["sha256"]) == (1, json.loads(file.read_text())["sha256"])
    call_command("preregister", "vicuna", verify=file)
    assert "version 1 of this project" in capsys.readouterr().out
    call_command("preregister", "vicuna", output=tmp_path / "plan.md")
    assert told["sha256"] in (tmp_path / "plan.md").read_text()
    file.write_text(file.read_text().replace("So?", "No?"))
    with pytest.raises(CommandError, match="was changed"):
        call_command("preregister", "vicuna", verify=file)
