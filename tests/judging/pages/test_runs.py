from decimal import Decimal

import pytest
from django.urls import reverse

from judging.dataset.scores import import_scores
from judging.projects.models import Membership
from judging.runs.models import Run
from tests.factories import make_examples, make_run, make_verdict
from tests.judging.runs.judging import ENDPOINT, loopback

pytestmark = pytest.mark.django_db

FIELDS = {"endpoint": ENDPOINT, "method": "mec_bpc", "form": "score", "k": "2", "temperature": "1"}


@pytest.fixture
def examples(project):
    return make_examples(project, 3)


@pytest.fixture
def server(settings):
    with loopback(settings) as server:
        yield server


@pytest.fixture
def post(as_researcher, project):
    """Post the start form; part=True as its script does for the estimate."""

    def post(page="run_start", part=False, **fields):
        headers = {"HX-Request": "true", "HX-Target": "estimate"} if part else {}
        url = reverse(page, args=[project.slug])
        return as_researcher.post(url, FIELDS | fields, headers=headers)

    return post


def get(client, project, name="runs"):
    return client.get(reverse(name, args=[project.slug]))


@pytest.mark.parametrize("name", ["runs", "run_start", "run_models"])
def test_strangers_see_no_project_and_annotators_no_runs(
    client, project, outsider, annotator, name
):
    client.force_login(outsider)
    assert get(client, project, name).status_code == 404
    client.force_login(annotator)
    assert get(client, project, name).status_code == 403


@pytest.mark.parametrize("name", ["run_start", "run_estimate"])
def test_whoever_may_not_spend_can_start_nothing(client, project, researcher, examples, name):
    researcher.user_permissions.clear()
    client.force_login(researcher)
    assert "Ask the operator" in get(client, project).content.decode()
    assert client.post(reverse(name, args=[project.slug]), FIELDS).status_code == 403
    assert not Run.objects.exists()


def test_the_list_unblinds_nobody(as_researcher, project, researcher):
    make_run(project)
    get(as_researcher, project)
    assert Membership.objects.get(user=researcher).unblinded_at is None


def test_the_list_says_what_to_do_first(as_researcher, project):
    assert "There is nothing to judge yet." in get(as_researcher, project).content.decode()
    make_examples(project, 1)
    assert "No run yet." in get(as_researcher, project).content.decode()


def test_a_project_of_single_responses_alone_can_start_a_run(
    as_researcher, project, researcher, tmp_path
):
    path = tmp_path / "scores.csv"
    path.write_text("input,output,criterion,rater,score\nq,a,fluency,ann,4\n")
    import_scores(project, researcher, path)
    page = get(as_researcher, project).content.decode()
    assert f'href="{reverse("run_start", args=[project.slug])}">Start a run' in page
    assert "No run yet." in page
    page = get(as_researcher, project, "run_start").content.decode()
    assert "about 1 single response." in page
    overview = as_researcher.get(reverse("project", args=[project.slug])).content.decode()
    assert "single response" in overview
    assert "nothing imported yet" not in overview
    assert "Start a judge" in overview


def test_a_run_is_listed_with_its_judge_coverage_and_cost(as_researcher, project, examples):
    run = make_run(
        project, name="<b>mine</b>", model="gpt-4", endpoint="default", price={"input": "1"}
    )
    Run.objects.filter(pk=run.pk).update(spent_usd=Decimal("1.5"))
    make_verdict(run, examples[0], 0.0)
    make_verdict(run, examples[1], None)
    html = get(as_researcher, project).content.decode()
    assert "&lt;b&gt;mine&lt;/b&gt;" in html
    assert '1 <span class="coverage">of 3</span>' in html
    assert "$1.50" in html
    assert reverse("run", args=[project.slug, 1]) in html


def test_the_list_tells_single_responses_and_choices_apart(as_researcher, project):
    make_run(project, form="pointwise", method="vanilla", name="points", ranked_at=None)
    make_run(project, form="choice", parameters={"permutations": ["X0", "X2"]}, name="letters")
    html = as_researcher.get(reverse("runs", args=[project.slug])).content.decode()
    assert "<td>single responses</td>" in html
    assert "<td>choice with X0, X2</td>" in html
    assert "VANILLA" not in html
    assert "not yet" not in html


def test_an_unknown_price_is_shown_as_unknown_and_not_as_free(as_researcher, project, examples):
    make_run(project)
    html = get(as_researcher, project).content.decode()
    assert '<span class="why">unknown</span>' in html
    assert "$0" not in html


def test_fifty_runs_take_as_many_queries_as_one(
    as_researcher, project, examples, django_assert_num_queries
):
    for _ in range(2):
        make_run(project)
    with django_assert_num_queries(10):
        get(as_researcher, project)
    for _ in range(50):
        make_verdict(make_run(project), examples[0], 0.5)
    with django_assert_num_queries(10):
        html = get(as_researcher, project).content.decode()
    assert "1–50 of 52" in html


def test_a_run_is_started_with_what_the_form_says(post, project, examples, server, researcher):
    response = post(
        name="first",
        model="m1",
        budget="2.5",
        price_in="1",
        price_out="2",
        seed="9",
        rpm="60",
        concurrency="3",
        temperature="0.5",
    )
    run = Run.objects.get()
    assert response.url == reverse("run", args=[project.slug, 1])
    assert (run.name, run.model, run.endpoint, run.k) == ("first", "m1", ENDPOINT, 2)
    assert (run.budget_usd, run.seed, run.rpm, run.concurrency) == (Decimal("2.5"), 9, 60, 3)
    assert (run.temperature, run.created_by) == (Decimal("0.5"), researcher)
    assert run.state == Run.State.QUEUED
    assert run.price_source


def test_a_run_in_batches_that_stops_early_is_started_from_the_form(
    post, as_researcher, project, examples, server
):
    post(model="m1", batch="on", adaptive="0.9", price_in="1", price_out="2")
    run = Run.objects.get()
    assert run.parameters["adaptive"] == {"confidence": 0.9}
    assert run.parameters["batch"]["usual_price"]
    url = reverse("run_start", args=[project.slug])
    form = as_researcher.get(url, {"like": 1}).context["form"]
    assert (form["batch"].value(), form["adaptive"].value()) == (True, 0.9)
    assert form.economy_is_meant()
    assert not as_researcher.get(url).context["form"].economy_is_meant()


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"endpoint": "local", "batch": "on"}, "support batches. Choose another endpoint."),
        ({"adaptive": "0.9", "k": "1"}, "k of at least 2"),
        ({"adaptive": "0.9", "method": "ec"}, "An adaptive run needs mec_bpc"),
        ({"adaptive": "0.4"}, "greater than or equal to 0.5"),
        ({"adaptive": "1"}, "less than or equal to 0.999"),
        ({"adaptive": "NaN"}, "Enter a number."),
    ],
)
def test_what_can_not_be_cheaper_so_is_refused_and_explained(
    post, examples, server, fields, sentence
):
    response = post(**{"model": "m1", **fields})
    assert response.status_code == 422
    assert sentence in response.content.decode()
    assert response.context["form"].economy_is_meant()
    assert not Run.objects.exists()


def test_the_estimate_refuses_what_start_refuses(post, examples, server):
    asked = {"form": "pointwise", "criteria": "fluency", "model": "m1"}
    estimate = post("run_estimate", part=True, **asked)
    assert "has no single responses yet" in estimate.content.decode()
    assert "has no single responses yet" in post(**asked).content.decode()


def test_the_estimate_is_that_of_batches(post, examples, server):
    prices = {"model": "m1", "price_in": "1000", "price_out": "1000"}
    usual = post("run_estimate", part=True, **prices)
    batched = post("run_estimate", part=True, **prices, batch="on")
    assert batched.context["estimate"].usd == usual.context["estimate"].usd / 2
    assert "up to 24 hours" in batched.content.decode()
    assert "up to 24 hours" not in usual.content.decode()


def test_the_estimate_says_how_far_a_budget_reaches(post, examples, server):
    asked = {"model": "m1", "budget": "2"}
    unpriced = post("run_estimate", part=True, **asked)
    priced = post("run_estimate", part=True, **asked, price_in="1000", price_out="1000", seed="7")
    assert "so a run with a budget can" in unpriced.content.decode()
    assert "The budget of $2.00 covers " in priced.content.decode()


def test_an_ec_run_takes_one_sample_whatever_k_says(post, examples, server):
    post(method="ec", model="m1", k="3")
    assert Run.objects.get().k == 1


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"budget": "1"}, "so a budget can&#x27;t be kept. Nothing was started."),
        ({"price_in": "1"}, "Give both prices, or neither."),
        ({"endpoint": "http://169.254.169.254/"}, "is not one of the available choices"),
        ({"template": "portia-table13"}, "asks for the form relation"),
        ({"k": "0"}, "greater than or equal to 1"),
        ({"temperature": "NaN"}, "Enter a number."),
        ({"form": "choice", "band": "1e-999999"}, "no more than 6 decimal places"),
        ({"seed": "99999999999999999999"}, "less than or equal to"),
    ],
)
def test_what_cannot_be_started_comes_back_with_the_reason(post, examples, server, fields, problem):
    response = post(**{"model": "m1"} | fields)
    assert response.status_code == 422
    assert problem in response.content.decode()
    assert not Run.objects.exists()


def test_another_run_like_a_recorded_one_can_be_begun(as_researcher, project):
    run = make_run(project, form="choice", parameters={"permutations": ["X0", "X2"]})
    page = as_researcher.get(reverse("run_start", args=[project.slug]), {"like": run.number})
    assert page.status_code == 200
    assert page.context["form"]["permutations"].value() == 2


def test_another_run_like_one_over_single_responses_keeps_criteria_and_scale(
    as_researcher, project
):
    parameters = {
        "items": [["fluency", "Fluency"], ["wit", "Wit"]],
        "output": {"scale": ["1", "5"]},
    }
    run = make_run(project, form="pointwise", method="vanilla", parameters=parameters)
    page = as_researcher.get(reverse("run_start", args=[project.slug]), {"like": run.number})
    form = page.context["form"]
    assert (form["criteria"].value(), form["scale"].value()) == ("fluency, wit", "1,5")


def test_the_cost_is_said_before_anything_is_sent(post, examples, server):
    html = post("run_estimate", part=True, model="m1", price_in="1", price_out="2").content.decode()
    assert html.lstrip().startswith('<div id="estimate"')
    assert "6, on 3 examples" in html
    assert "at most $" in html
    assert not Run.objects.exists()
    assert server.requests == 0


def test_the_estimate_of_an_unknown_price_is_unknown(post, examples, server):
    html = post("run_estimate", part=True, model="m1").content.decode()
    assert "unknown, because the price is unknown" in html


def test_the_estimate_says_what_is_wrong_and_works_without_script(post, examples, server):
    assert "No estimate." in post("run_estimate", part=True, k="x").content.decode()
    page = post("run_estimate", model="m1").content.decode()
    assert "<!doctype html>" in page
    assert "6, on 3 examples" in page


def test_the_models_are_those_that_the_endpoint_lists_now(as_researcher, project, settings):
    url = reverse("run_models", args=[project.slug])
    with loopback(settings):
        html = as_researcher.get(url, {"endpoint": ENDPOINT}).content.decode()
    assert '<option value="loopback-judge">' in html
    html = as_researcher.get(url, {"endpoint": ENDPOINT}).content.decode()
    assert "did not list its models" in html
    assert "There is no endpoint" in as_researcher.get(url).content.decode()


def test_a_run_can_be_started_like_another(as_researcher, project, examples, server):
    make_run(project, endpoint=ENDPOINT, model="m7", k=5, template_name="faireval-table5")
    html = as_researcher.get(reverse("run_start", args=[project.slug]), {"like": "1"})
    assert 'value="m7"' in html.content.decode()
    assert '<option value="faireval-table5" selected>' in html.content.decode()
    assert (
        as_researcher.get(reverse("run_start", args=[project.slug]), {"like": "9" * 30}).status_code
        == 200
    )
