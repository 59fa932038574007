from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from judging.core.errors import UserError
from judging.projects.models import AuditEvent
from judging.runs import lifecycle
from judging.runs.engine.working import work_on
from judging.runs.models import JudgeTemplate, Run, find_run
from judging.runs.planning.estimate import estimate_run
from judging.runs.planning.start import start_run
from tests.factories import make_examples, make_project, make_run
from tests.judging.runs.judging import judged, loopback, started
from tests.loopback import Quirks

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def project(project):
    make_examples(project, 4)
    return project


def test_what_was_left_open_is_filled_in_and_kept(project, researcher, settings):
    with loopback(settings) as server:
        run = start_run(project, researcher, endpoint="loop", background=False)
    assert (run.number, run.model, run.base_url) == (1, "loopback-judge", server.base_url)
    assert (run.method, run.form, run.k) == ("mec_bpc", "score", 3)
    assert run.template_name == "faireval-table3"
    assert run.template_text
    assert run.schema is None
    assert run.price is None
    event = AuditEvent.objects.get(project=project, action="run started")
    assert event.user == researcher


def test_without_an_endpoint_the_local_judge_is_asked_in_json(project):
    run = start_run(project, None, background=False)
    assert (run.endpoint, run.template_name) == ("local", "faireval-table3-json")
    assert list(run.schema["properties"]) == ["evidence", "score_1", "score_2"]
    assert run.price_source == "local"


def test_a_worker_is_woken_once_the_run_is_committed(project, settings, monkeypatch):
    woken = []
    monkeypatch.setattr("judging.core.waking.wake_on_commit", lambda task, run: woken.append(run))
    run = start_run(project, None)
    assert woken == [run.pk]
    assert run.state == Run.State.QUEUED


def test_vanilla_asks_for_the_scores_first_and_takes_one_sample(project, settings):
    with loopback(settings):
        run = started(project, method="vanilla")
    assert (run.template_name, run.k, run.orders) == ("faireval-table1", 1, ("original",))


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"endpoint": "nowhere"}, "There is no endpoint nowhere"),
        ({"method": "magic"}, "Method magic is not available"),
        ({"form": "choice", "permutations": 5}, "Permutations are 1 to 4"),
        ({"form": "choice", "method": "mec_bpc", "permutations": 1}, "asks both orders"),
        ({"form": "choice", "ids": "A,AB"}, "can't be told apart"),
        ({"form": "choice", "ids": "A"}, "option IDs are two"),
        ({"form": "choice", "band": Decimal("0.5")}, "lies from 0 to below 0.5"),
        ({"form": "choice", "shots": 4}, "from 0 to 3"),
        ({"form": "choice", "shots": 2}, "need 3 questions with a known label"),
        ({"form": "choice", "adaptive": 0.9}, "nothing to stop early"),
        ({"form": "score", "ids": "A,B"}, "settings of the form choice"),
        ({"method": "ec", "k": 3}, "ec takes one sample"),
        ({"k": 0}, "from 1 to"),
        ({"template": "nope"}, "There is no template 'nope'"),
        ({"template": "portia-table13"}, "asks for the form relation"),
        ({"name": "n" * 121}, "at most 120 characters"),
        ({"model": "m" * 201}, "at most 200 characters"),
        ({"model": "two\nlines"}, "in one line"),
        ({"temperature": Decimal(9)}, "between 0 and 5"),
        ({"concurrency": 5000}, "from 1 to 4096"),
        ({"budget": Decimal(1)}, "price of loopback-judge at loop is unknown"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(project, settings, choices, sentence):
    with loopback(settings), pytest.raises(UserError, match=sentence):
        started(project, **choices)
    assert not Run.objects.exists()


def test_a_budget_is_refused_to_a_run_whose_price_is_unknown(project, settings):
    with loopback(settings):
        run = judged(project)
        for change in (lifecycle.raise_budget, lambda run, usd: lifecycle.resume(run, budget=usd)):
            with pytest.raises(UserError, match="can't keep a budget"):
                change(run, Decimal(1))


def test_several_models_must_be_chosen_from(project, settings):
    with loopback(settings, models=["a", "b"]):
        with pytest.raises(UserError, match=r"several models. Name one: a, b.$"):
            started(project)
        with pytest.raises(CommandError, match="The flag is --model"):
            call_command("judge", project.slug, "--endpoint", "loop")
    settings.FAIRJUDGE_JUDGE_MODEL = "b"
    with loopback(settings, models=["a", "b"]):
        assert started(project).model == "b"


def test_a_name_is_taken_once(project, settings):
    with loopback(settings):
        started(project, name="first")
        with pytest.raises(UserError, match="named first already"):
            started(project, name="first")
        assert started(project).number == 2


def test_a_project_without_examples_is_refused(settings, db):
    with loopback(settings), pytest.raises(UserError, match="has no examples yet"):
        started(make_project())


def test_a_template_of_the_project_is_kept_whole_with_the_run(project, settings):
    text = "Q {question}\nA {first}\nB {second}"
    JudgeTemplate.objects.create(
        project=project, name="own", form="score", text=text, output={"reply": "score_lines"}
    )
    with loopback(settings) as server:
        run = started(project, template="own")
        JudgeTemplate.objects.all().delete()
        work_on(run)
    assert "Q Question 0?\nA First" in server.log[0].body["messages"][0]["content"]


def test_a_run_is_found_by_number_name_and_latest(project):
    one, two = make_run(project, name="one"), make_run(project, name="two")
    assert find_run(project, "1") == one
    assert find_run(project, "two") == find_run(project, "latest") == two
    with pytest.raises(UserError, match=r"no run 9. The last ones are: 2 \(two\), 1 \(one\)"):
        find_run(project, "9")


def test_an_estimate_asks_nothing_and_is_near_what_the_run_then_costs(project, settings):
    price = (Decimal(3), Decimal(10))
    with loopback(settings) as server:
        first = estimate_run(project, endpoint="loop", price=price)
        assert server.requests == 0
        assert (first.n_examples, first.n_calls, first.seconds) == (4, 8, None)
        assert first.usd < first.usd_most
        run = judged(project, price=price)
        later = estimate_run(project, endpoint="loop", price=price)
    assert run.spent_usd < first.usd_most
    assert later.seconds is not None
    assert later.completion_tokens == pytest.approx(
        sum(run.calls.values_list("completion_tokens", flat=True))
    )


@pytest.mark.parametrize("quirks", [Quirks(max_n=1), Quirks(ignores_n=True), Quirks(max_n=2)])
def test_an_estimate_pays_for_the_prompt_of_each_call_that_a_judge_takes(project, settings, quirks):
    """Three samples by one or two choices a call are three or two calls."""
    asked = {"price": (Decimal(3), Decimal(10)), "max_tokens": 60}
    with loopback(settings, quirks=quirks):
        first = estimate_run(project, endpoint="loop", **asked)
        run = judged(project, **asked)
        later = estimate_run(project, endpoint="loop", **asked)
    assert "pays for the prompt each time" in first.basis
    assert "pays for the prompt each time" not in later.basis
    calls = run.calls.exclude(prompt_tokens=None)
    assert later.n_calls == 4 * 2 * (2 if quirks.max_n == 2 else 3)
    assert calls.count() - later.n_calls in (0, 1)
    assert later.usd_most <= first.usd_most
    assert run.spent_usd < first.usd_most


def test_an_estimate_takes_as_long_as_the_minute_allows(project, settings):
    with loopback(settings):
        judged(project)
        usual = estimate_run(project, endpoint="loop")
        slow = estimate_run(project, endpoint="loop", rpm=2)
        bounded = estimate_run(project, endpoint="loop", tpm=1000)
    tokens = usual.prompt_tokens + usual.completion_tokens
    assert usual.seconds < 60
    assert slow.seconds == 8 / 2 * 60
    assert bounded.seconds == pytest.approx(tokens / 1000 * 60)


def test_an_estimate_with_an_unknown_price_is_unknown(project, settings):
    with loopback(settings):
        assert estimate_run(project, endpoint="loop").usd is None
