"""How a PORTIA run is chosen, reckoned, exported and imported, and what is refused."""

import json
from collections import Counter
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from judging.core.errors import UserError
from judging.runs import lifecycle
from judging.runs.engine.progress import progress_of
from judging.runs.engine.rereading import reparse
from judging.runs.engine.working import work_on
from judging.runs.forms.portia import PortiaOptions
from judging.runs.models import Call, Parse, Run, Sample, Verdict
from judging.runs.planning.estimate import estimate_run
from judging.runs.samples import transcript_of
from judging.runs.verdicts.rebuild import rebuild_verdicts
from tests.factories import make_examples, make_project
from tests.judging.llm.test_sentence_models import model, needs_onnx  # noqa: F401
from tests.judging.runs.judging import ENDPOINT, loopback, started, states_of
from tests.judging.runs.portia_pairs import by_portia, calls_of, make_pairs, stages_of
from tests.loopback import completion
from tests.loopback.portia import StagedJudge, always_first, first_when_whole

db = pytest.mark.django_db(transaction=True)
on_both = pytest.mark.databases

UNSPLIT_FIRST = PortiaOptions(unsplit_first=True)


@db
def test_an_estimate_names_the_fewest_and_the_most_calls(settings, capsys):
    project = make_pairs(4, short=1)
    price = (Decimal(1), Decimal(1))
    with loopback(settings):
        found = estimate_run(
            project, endpoint=ENDPOINT, method="portia", form="relation", price=price,
            portia=UNSPLIT_FIRST,
        )  # fmt: skip
        assert (found.n_calls, found.n_calls_most) == (8, 3 * 6 + 2)
        assert "at least two calls per example" in found.basis
        call_command(
            "judge", project.slug, "--method", "portia", "--endpoint", ENDPOINT, "--form",
            "likert", "--parts", "2", "--tokens", "split", "--estimate",
        )  # fmt: skip
    assert "8 to 14 calls" in capsys.readouterr().out


@db
def test_the_command_keeps_how_responses_are_split(settings, capsys):
    project = make_pairs(2)
    with loopback(settings, judge=StagedJudge(always_first)):
        call_command(
            "judge", project.slug, "--method", "portia", "--form", "relation", "--endpoint",
            ENDPOINT, "--parts", "2", "--tokens", "split", "--unsplit-first", "--without", "length",
        )  # fmt: skip
    assert "Judging: 8 of 8" in capsys.readouterr().err
    kept = Run.objects.get().parameters["portia"]
    assert kept["splitter"].startswith("sentencex ")
    del kept["splitter"]
    assert kept == {
        "parts": 2,
        "tokens": "split",
        "unsplit_first": True,
        "alignments": ["semantic"],
        "stages": ["unsplit", "semantic"],
    }


@db
@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"portia": PortiaOptions(parts=1)}, "2 to 10 parts, not 1"),
        ({"portia": PortiaOptions(tokens="letters")}, "Choose from: word, split, embedding"),
        ({"portia": PortiaOptions(tokens="embedding")}, "by FAIRJUDGE_SENTENCE_MODEL"),
        ({"portia": PortiaOptions(without="unsplit")}, "can't be left out"),
        ({"form": "choice"}, "don't go together"),
        ({"method": "mec_bpc", "portia": PortiaOptions(parts=4)}, "settings of the method portia"),
        ({"adaptive": 0.95, "k": 3}, "An adaptive run needs mec_bpc"),
        ({"criteria": "brevity"}, "has no slot {criteria}"),
    ],
)
def test_what_portia_can_not_do_is_refused_in_a_sentence(settings, choices, sentence):
    project = make_pairs(1)
    with loopback(settings), pytest.raises(UserError, match=sentence):
        started(project, **{"method": "portia", "form": "relation"} | choices)
    assert not project.runs.exists()


@db
@on_both
def test_exported_samples_name_their_stage_and_come_back_by_it(settings, tmp_path, capsys):
    project = make_pairs(4, short=1)
    with loopback(settings, judge=StagedJudge(first_when_whole)):
        run = by_portia(project, portia=UNSPLIT_FIRST, k=2)
    path = tmp_path / "samples.jsonl"
    call_command("export", project.slug, "--what", "samples", "--format", "jsonl", "-o", str(path))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert Counter((row["stage"], row["order"]) for row in rows) == {
        ("unsplit", "original"): 8,
        ("unsplit", "swapped"): 8,
        ("length", "original"): 6,
        ("length", "swapped"): 6,
    }
    for row in rows:
        del row["part"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    call_command("import_judgments", project.slug, str(path), "--name", "again")
    again = project.runs.get(name="again")
    assert again.stages == ("unsplit", "length")
    said = ("example__number", "state", "stage", "label", "cs_1", "bpde", "n_asked")
    assert list(again.verdicts.order_by("example__number").values_list(*said)) == list(
        run.verdicts.order_by("example__number").values_list(*said)
    )


def test_a_stage_that_portia_does_not_have_is_refused(db, tmp_path):
    project = make_pairs(1)
    path = tmp_path / "samples.jsonl"
    path.write_text('{"external_id": "e0", "part": "portia:sound:original", "outcome": "win"}\n')
    with pytest.raises(CommandError, match="stages unsplit, length, semantic"):
        call_command("import_judgments", project.slug, str(path))


OWN = """form = "relation"
sample_reply = "[[B]]"
text = '''
{Q}
[The Start of A]
{R1}
[The End of A]

[The Start of B]
{R2}
[The End of B]

%s
Say [[A]], [[B]] or [[C]].
'''
"""


@db
def test_a_template_from_a_file_is_kept_with_the_run_and_shows_parts(settings, tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(OWN % "{criteria}")
    with loopback(settings, lambda asked: completion("[[C]]")) as server:
        call_command(
            "judge", make_pairs(1).slug, "--method", "portia", "--template", str(path),
            "--endpoint", ENDPOINT, "--criteria", "Brevity alone.",
        )  # fmt: skip
        prompt = server.log[0].body["messages"][0]["content"]
    run = Run.objects.get()
    assert (run.template_name, run.form) == ("own", "relation")
    assert "[The Start of A part 3]" in prompt
    assert "Brevity alone." in prompt
    assert stages_of(run) == {"length": 1}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("form = ", "is no judge template. The template file is not TOML"),
        (OWN.replace("{R2}", "") % "", "The slot {second} is missing."),
        (OWN.replace('[[B]]"', 'fine"') % "", "contains no readable verdict"),
        ("\x00", "is no judge template"),
        (None, "can't be read: No such file or directory"),
        (OWN.replace("[The End of B]", "") % "", "can't show a response in parts"),
    ],
)
def test_a_template_file_that_does_not_fit_starts_nothing(settings, tmp_path, text, sentence):
    path = tmp_path / "own.toml"
    if text is not None:
        path.write_text(text)
    project = make_pairs(1)
    with loopback(settings), pytest.raises(CommandError) as refused:
        call_command(
            "judge", project.slug, "--method", "portia", "--template", str(path),
            "--endpoint", ENDPOINT,
        )  # fmt: skip
    assert sentence in str(refused.value)
    assert not Run.objects.exists()


@db
def test_what_can_no_longer_be_split_ends_the_run_in_a_sentence_and_is_still_read(settings):
    """As under another version of the splitter, which finds nothing to cut."""
    project = make_pairs(1)
    with loopback(settings, judge=StagedJudge(always_first)):
        run = by_portia(project)
        project.examples.update(response_1="Short.", response_2="So is this.")
        Parse.objects.update(version=0)
        assert reparse(run).read == 4
        Sample.objects.filter(call__part="portia:semantic:swapped").delete()
        lifecycle.resume(run, background=False)
        work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.FAILED
    assert run.reason.startswith("The responses of e0 can no longer be split")


@db
@needs_onnx
def test_a_sentence_model_aligns_and_a_run_goes_on_only_under_the_same(settings, model):  # noqa: F811
    """Nothing is alike by words; by the model of two meanings cats are like felines."""
    settings.FAIRJUDGE_SENTENCE_MODEL = str(model)
    project = make_project()
    make_examples(project, 1, response_1="cat. car. car.", response_2="feline. feline.  . feline.")
    embedding = PortiaOptions(parts=2, tokens="embedding", without="length")
    with loopback(settings, judge=StagedJudge(always_first)):
        run = by_portia(project, portia=embedding)
        assert calls_of(run) == {"semantic": 2}
        assert model.name in run.parameters["portia"]["splitter"]
        (model / "tokenizer.json").write_text((model / "tokenizer.json").read_text() + "\n")
        moved = model.rename(model.with_name("another"))
        settings.FAIRJUDGE_SENTENCE_MODEL = str(moved)
        with pytest.raises(UserError, match="the sentence model is now another"):
            lifecycle.resume(run, background=False)


@db
@on_both
def test_progress_expects_what_was_asked_and_each_example_once(settings):
    project = make_pairs(3)
    with loopback(settings, judge=StagedJudge(always_first)):
        waiting = started(project, method="portia", form="relation")
        before = progress_of(waiting)
        assert (before.expected, before.settled) == (6, 0)
        run = by_portia(project)
    after = progress_of(run)
    assert (after.expected, after.settled, after.share) == (12, 12, 1.0)
    assert list(after.by_order) == [
        "portia:length:original",
        "portia:length:swapped",
        "portia:semantic:original",
        "portia:semantic:swapped",
    ]
    assert "until both orders agree" in after.notes[0]
    example = project.examples.first()
    assert [order.part for order in transcript_of(run, example)] == list(after.by_order)


@db
def test_verdicts_are_rebuilt_alike_and_unranked_while_a_stage_is_due(settings):
    project = make_pairs(2)
    with loopback(settings, judge=StagedJudge(always_first)):
        run = by_portia(project)
    Sample.objects.filter(call__part="portia:semantic:swapped").delete()
    Call.objects.filter(part="portia:semantic:swapped").delete()
    counts = rebuild_verdicts(run)
    assert counts.pending == 2
    assert set(Verdict.objects.filter(run=run).values_list("stage", "rank")) == {("", None)}
    assert states_of(run) == {"done": 6}
