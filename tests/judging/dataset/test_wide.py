"""Questions with the responses of several models become pairs, the same ones each time."""

import json
from collections import Counter
from math import comb

import numpy as np
import pytest
from django.core.management import call_command
from django.urls import reverse

from judging.core.errors import UserError
from judging.dataset.models import Example, Import, questions_of
from judging.dataset.uploads import first_pass
from judging.dataset.wide import PairDesign
from judging.dataset.writing import import_files
from judging.methods.ranking import bradley_terry
from judging.projects.models import Role
from judging.runs.models import Call
from judging.runs.planning.estimate import price_of_pairs
from tests.factories import make_examples, make_member, make_project, make_run

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
MODELS = ("ash", "birch", "cedar", "dogwood", "elm")


@pytest.fixture
def project():
    return make_project("wide")


@pytest.fixture
def wide(tmp_path):
    """Write questions with a list of responses, one of each model."""

    def write(questions=4, models=MODELS, name="wide.jsonl"):
        rows = [
            {
                "id": f"q{n}",
                "question": f"Question {n}?",
                "category": "math",
                "responses": [{"model": one, "response": f"{one} on {n}"} for one in models],
            }
            for n in range(questions)
        ]
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


def pairs_of(project):
    rows = Example.objects.filter(project=project).values_list("question", "model_1", "model_2")
    return {(question, frozenset(models)) for question, *models in rows}


DESIGNS = {
    "all": 4 * comb(5, 2),
    "baseline=cedar": 4 * 4,
    "random=2": 4 * 7,
    "blocks=2": 4,
    "blocks=3": 4 * 3,
}


@pytest.mark.parametrize(("said", "expected"), DESIGNS.items())
def test_the_same_file_and_design_add_nothing_and_a_later_model_adds_its_own(
    project, wide, said, expected
):
    design, before = PairDesign.read(said, 5), wide(models=MODELS[:-1], name="before.jsonl")
    import_files(project, None, [before], design=design)
    first = pairs_of(project)
    again = import_files(project, None, [before], design=design)
    assert (again.n_written, again.n_known) == (0, len(first))
    later = import_files(project, None, [wide()], design=design)
    added = pairs_of(project) - first
    assert later.n_written == len(added) > 0
    assert later.n_conflicts == 0
    assert all("elm" in models for _, models in added)
    assert import_files(project, None, [wide()], design=design).n_written == 0
    if not said.startswith("blocks"):
        fresh = import_files(make_project("fresh"), None, [wide()], design=design)
        assert fresh.n_written == expected
    # No pair twice, whatever the order, and none of a model with itself.
    assert Example.objects.filter(project=project).count() == len(pairs_of(project))
    assert all(len(models) == 2 for _, models in pairs_of(project))


def test_another_design_adds_only_the_pairs_that_are_missing(project, wide):
    import_files(project, None, [wide()], design=PairDesign.read("random=1", 3))
    n = Example.objects.filter(project=project).count()
    done = import_files(project, None, [wide()], design=PairDesign.read("all"))
    assert (done.n_known, done.n_written) == (n, DESIGNS["all"] - n)


def test_the_design_is_kept_with_its_seed_and_models(project, wide):
    done = import_files(project, None, [wide()], design=PairDesign.read("blocks=2", 9))
    assert done.options["design"] == {
        "kind": "blocks", "seed": 9, "baseline": "", "size": 2, "stages": [list(MODELS)],
    }  # fmt: skip
    later = import_files(
        project, None, [wide(models=(*MODELS, "fir"))], design=PairDesign.read("blocks=2", 9)
    )
    assert PairDesign.stored_in(later.options).stages == (MODELS, ("fir",))


def test_pairs_are_balanced_over_questions_and_sides(project, wide):
    import_files(project, None, [wide(questions=40)], design=PairDesign.read("blocks=2"))
    examples = Example.objects.filter(project=project)
    times = Counter(frozenset(pair) for pair in examples.values_list("model_1", "model_2"))
    assert set(times.values()) == {4}
    first = examples.filter(model_1__lt="birch").count()
    assert 2 < first < 16


def test_the_pairs_of_a_question_are_one_cluster_for_bradley_terry(project, wide):
    import_files(project, None, [wide(questions=30)], design=PairDesign.read("all"))
    examples = list(Example.objects.filter(project=project).order_by("number"))
    codes = questions_of(project.pk, [one.pk for one in examples])
    assert len(set(codes)) == 30
    # One model wins all of its pairs of a question, so a question says as much as one label.
    rng = np.random.default_rng(0)
    best = [MODELS[n] for n in rng.integers(0, 5, 30)]
    first = [MODELS.index(one.model_1) for one in examples]
    second = [MODELS.index(one.model_2) for one in examples]
    sign = [
        1 if one.model_1 == best[code] else -1 if one.model_2 == best[code] else 0
        for one, code in zip(examples, codes, strict=True)
    ]

    def width(question):
        ranked = bradley_terry(MODELS, first, second, sign, question=question)
        return sum(one.strength.high - one.strength.low for one in ranked)

    assert width(codes) > 1.2 * width(None)


def test_columns_lists_and_mapped_columns_are_the_same_pairs(project, tmp_path):
    numbered = tmp_path / "numbered.csv"
    numbered.write_text(
        "id,question,response_1,response_2,response_3,model_1,model_2,model_3\n"
        "q,What?,a,b,c,ash,birch,cedar\n"
    )
    mapped = tmp_path / "mapped.csv"
    mapped.write_text("id,question,ash,birch,cedar\nq,What?,a,b,c\n")
    design = PairDesign.read("all")
    assert import_files(project, None, [numbered], design=design).n_written == 3
    mapping = dict.fromkeys(("ash", "birch", "cedar"), "response")
    done = import_files(project, None, [mapped], mapping=mapping, design=design)
    assert (done.n_written, done.n_known) == (0, 3)
    listed = tmp_path / "listed.jsonl"
    responses = [{"model": m, "output": t} for m, t in (("ash", "a"), ("birch", "b"))]
    listed.write_text(json.dumps({"id": "q", "question": "What?", "outputs": responses}))
    assert import_files(project, None, [listed], design=design).n_known == 1


def test_a_response_that_is_missing_makes_no_pair(project, tmp_path):
    path = tmp_path / "gaps.csv"
    path.write_text("question,response_1,response_2,response_3\nWhat?,a,,c\nWhy?,a,b,c\n")
    done = import_files(project, None, [path], design=PairDesign.read("all"))
    assert done.n_written == 1 + 3
    names = Example.objects.filter(project=project, question="What?").values_list(
        "model_1", "model_2"
    )
    assert set(names[0]) == {"response_1", "response_3"}


@pytest.mark.parametrize(
    ("row", "design", "sentence"),
    [
        ("ash,a,ash,b,cedar,c", "all", "two responses of 'ash'"),
        ("ash,a,birch,,cedar,", "all", "fewer than two responses"),
        ("ash,a,birch,b,,c", "all", "Response 3 has no model"),
        ("ash,a,birch,b,elm,c", "baseline=cedar", "no response of cedar"),
    ],
)
def test_a_row_that_can_not_be_paired_is_named(project, tmp_path, row, design, sentence):
    path = tmp_path / "wide.csv"
    head = "model_1,response_1,model_2,response_2,model_3,response_3,question"
    path.write_text(f"{head}\nash,a,birch,b,cedar,c,Why?\n{row},What?\n")
    (problem,) = first_pass(project, [path], design=PairDesign.read(design)).summary.problems
    assert problem.place.line == 3
    assert sentence in problem.sentence


@pytest.mark.parametrize(
    "row",
    [
        {"question": "\ud800", "responses": [{"model": m, "text": m} for m in MODELS]},
        {"prompt": "\ud800", "chosen": "Good.", "rejected": "Bad."},
    ],
)
def test_a_lone_surrogate_is_named_although_an_id_is_made_of_it(project, tmp_path, row):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    (problem,) = first_pass(project, [path], design=PairDesign.read("all")).summary.problems
    assert problem.place.line == 1
    assert "the lone surrogate \\ud800" in problem.sentence


def test_a_question_that_nothing_may_walk_is_named(project, tmp_path):
    path = tmp_path / "wide.jsonl"
    question = [{"role": "user", "content": "Why?", "more": json.loads("[" * 400 + "]" * 400)}]
    responses = [{"model": m, "text": m} for m in MODELS]
    path.write_text(json.dumps({"question": question, "responses": responses}))
    (problem,) = first_pass(project, [path], design=PairDesign.read("all")).summary.problems
    assert (problem.place.line, problem.column) == (1, "question")
    assert "nested too deeply" in problem.sentence


def test_blocks_need_every_model_of_each_question(project, tmp_path, wide):
    path = wide()
    row = {"question": "Last?", "responses": [{"model": m, "text": m} for m in MODELS[1:]]}
    path.write_text(path.read_text() + json.dumps(row))
    (problem,) = first_pass(project, [path], design=PairDesign.read("blocks=2")).summary.problems
    assert "no response of ash" in problem.sentence


def test_nothing_is_written_before_somebody_chose_a_design(project, wide):
    with pytest.raises(UserError, match="responses of several models"):
        import_files(project, None, [wide()])
    assert not Example.objects.filter(project=project).exists()


@pytest.mark.parametrize(
    "said",
    [
        "",
        "some",
        "all=1",
        "random",
        "random=0",
        "blocks=1",
        "blocks=5",
        "baseline=",
        "random=000000000" + 5_000 * "9",
        "random=0000000015000",
    ],
)
def test_an_unknown_design_is_refused(said):
    with pytest.raises(UserError, match="Nothing was imported"):
        PairDesign.read(said)


def test_models_that_are_never_compared_are_told(project, wide):
    checked = first_pass(project, [wide(questions=1)], design=PairDesign.read("blocks=2"))
    assert checked.summary.wide["groups"] == 4


def test_models_that_earlier_pairs_compare_are_not_told_so(project, wide):
    import_files(
        project, None, [wide(questions=2, models=MODELS[1:4])], design=PairDesign.read("all")
    )
    checked = first_pass(project, [wide(questions=1)], design=PairDesign.read("blocks=2"))
    apart = checked.summary.wide["groups"]
    # One pair leaves five models in four groups, and the project compares three of the five.
    assert 1 < apart < 4
    import_files(project, None, [wide(questions=2)], design=PairDesign.read("all"))
    checked = first_pass(project, [wide(questions=1)], design=PairDesign.read("blocks=2"))
    assert checked.summary.wide["groups"] == 1


def test_pairs_are_priced_by_a_run_before_they_are_written(project, wide, capsys):
    assert price_of_pairs(10, None).calls is None
    run = make_run(project)
    Call.objects.create(
        run=run,
        example=make_examples(project, 1)[0],
        part="original",
        seq=1,
        state=Call.State.DONE,
        claimed_at=run.created_at,
        usd="0.02",
    )
    price = price_of_pairs(10, run)
    assert (price.calls, float(price.usd)) == (10, pytest.approx(0.2))
    call_command(
        "import_examples", "wide", wide(), "--design", "random=2", "--dry-run", "--run", "1"
    )
    said = capsys.readouterr().out
    assert "28 pairs, at least 2 random opponents for each response (seed 0)" in said
    assert "28 new pairs: 28 calls and about $0.56" in said
    assert Import.objects.filter(project=project, options__has_key="design").count() == 0


def test_the_page_asks_for_the_design_and_says_what_it_costs(client, project, wide):
    client.force_login(make_member(project, Role.RESEARCHER))
    with wide().open("rb") as stream:
        page = client.post(
            reverse("imports", args=["wide"]), {"files": stream, "file_format": "auto"}, follow=True
        )
    number = page.context["import"].number
    assert "Which responses are compared?" in page.content.decode()
    url = reverse("import_begin", args=["wide", number])
    assert client.post(url).status_code == 422
    chosen = {"design": "random", "size": "2", "seed": "4", "baseline": ""}
    form = page.context["form"]
    chosen |= {name: form[name].initial for name in form.columns}
    for wrong, field, sentence in (
        ({"design": "baseline"}, "baseline", "Choose the model that the others are compared with."),
        ({"design": "blocks", "size": "9"}, "size", "Enter a number from 2 to 4 for this design."),
    ):
        page = client.post(reverse("import_check", args=["wide", number]), chosen | wrong)
        assert page.context["form"].errors == {field: [sentence]}
    page = client.post(reverse("import_check", args=["wide", number]), chosen, follow=True)
    assert "at least 2 random opponents for each response (seed 4)" in page.content.decode()
    price = client.get(reverse("import_price", args=["wide", number])).content.decode()
    assert "28 new pairs" in price
    client.post(url)
    assert Import.objects.get(project=project, number=number).state == Import.State.WRITING


def test_responses_may_be_conversations(project, tmp_path):
    def turn(role, content):
        return {"role": role, "content": content}

    rows = [
        {
            "question": [turn("user", question), turn("assistant", "Which?"), turn("user", "Any.")],
            "responses": [
                {"model": name, "response": [turn("assistant", name)]} for name in MODELS[:3]
            ],
        }
        for question in ("One?", "Two?")
    ]
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert import_files(project, None, [path], design=PairDesign.read("all")).n_written == 6
    example = Example.objects.filter(project=project, question__contains="One?").first()
    assert example.response_1 == example.model_1
    assert "Which?" in example.conversation
