"""The pages of the site's owner."""

from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.utils import timezone
from kombu import Queue

from annotation.models import Round, RoundWork
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.models import Worker
from judging.projects.access import may_research
from judging.projects.models import AuditEvent, Delivery, Role
from judging.projects.tokens import issue_token, token_of_header
from judging.projects.webhooks import add_webhook, send_again, send_test
from tests.factories import make_examples, make_member, make_run, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
PAGES = ("/site/", "/site/users")


@pytest.fixture
def operator():
    return User.objects.create_user("operator", is_superuser=True, is_staff=True)


@pytest.fixture
def site(client, operator):
    client.force_login(operator)
    return client


def said(client, page="/site/"):
    return " ".join(client.get(page).content.decode().split())


def test_nobody_else_knows_of_these_pages(client, owner):
    for page in PAGES:
        assert client.get(page).status_code == 302
    client.force_login(owner)
    for page in PAGES:
        assert client.get(page).status_code == 404
    change = {"what": "deactivate"}
    assert client.post(f"/site/users/{owner.pk}", change).status_code == 404
    assert User.objects.get(pk=owner.pk).is_active
    assert 'href="/site/"' not in said(client, "/")


def test_the_page_says_what_needs_the_operator_and_what_works(site, settings):
    assert "No worker serves the queue quick." in said(site)
    queues = [Queue(f"ours.{name}") for name in ("runs", "quick")]
    settings.CELERY_TASK_QUEUES, settings.FAIRJUDGE_QUEUE_PREFIX = queues, "ours."
    # `--only` takes the part's own name.
    assert "the queue ours.quick. Start one: manage.py runall --only quick<" in said(site)
    settings.CELERY_TASK_QUEUES, settings.FAIRJUDGE_QUEUE_PREFIX = [Queue("quick")], ""
    now = timezone.now()
    Worker.objects.create(name="both@here", queues="quick,runs", started_at=now, seen_at=now)
    page = said(site)
    assert "Everything works" in page
    assert "needs you" not in page
    assert "none yet" in page
    assert 'href="/site/"' in page


def test_events_that_nobody_took_are_named_until_they_are_sent(site, project):
    hook = add_webhook(project, None, "https://example.org/hook", ["run.done"])
    delivery = send_test(hook, None)
    assert "could not be delivered" not in said(site)
    Delivery.objects.update(state=Delivery.State.DEAD)
    assert f"1 event of {project.slug} could not be delivered in a day." in said(site)
    send_again(delivery, None)
    assert "could not be delivered" not in said(site)


def test_work_under_way_is_listed_until_it_is_done(site, project):
    assert "No run, import, round or deletion is in progress." in said(site)
    make_examples(project, 4)
    run = make_run(project, state="running")
    make_run(project)
    open_round(project, None, None, RoundSettings(everything=True, votes=1))
    assert "opening the round" not in said(site)
    RoundWork.objects.filter(round=Round.objects.get()).update(state="writing", n_done=3)
    page = said(site)
    assert "round 1: opening the round" in page
    assert "3 of 4" in page
    assert f"/runs/{run.number}" in page
    assert "run 2" not in page


def test_endpoints_are_named_by_address_and_variable_and_never_by_key(site, settings):
    settings.FAIRJUDGE_ENDPOINTS = {
        "lab": {"base_url": "http://lab/v1", "key_variable": "LAB_KEY"},
        "open": {"base_url": "http://open/v1", "key_variable": ""},
        "bare": {"base_url": "http://bare/v1", "key_variable": "BARE_KEY"},
    }
    settings.FAIRJUDGE_ENDPOINT_KEYS = {"LAB_KEY": "sk-very-secret"}
    page = said(site)
    assert "http://lab/v1" in page
    assert "LAB_KEY" in page
    assert "sk-very-secret" not in page
    assert page.count("not set: runs on this endpoint fail") == 1


def test_the_last_backup_is_named(site, tmp_path, transactional_db):
    call_command("backup", str(tmp_path / "kept.zip"), stdout=StringIO())
    assert "kept.zip" in said(site)
    assert AuditEvent.objects.get(action="backup written").detail["bytes"] > 0


def test_a_deactivated_login_is_out_at_once_with_its_tokens(site, project, client):
    ana = make_member(project, Role.RESEARCHER, "ana")
    _, text = issue_token(ana, "test", ["read"])
    other = type(client)()
    other.force_login(ana)
    assert other.get("/").status_code == 200
    answer = site.post(f"/site/users/{ana.pk}", {"what": "deactivate"}, follow=True)
    assert "ana can" in answer.content.decode()
    assert other.get("/").status_code == 302
    assert token_of_header(f"Bearer {text}") is None
    assert "deactivated" in said(site, "/site/users?q=AN")
    site.post(f"/site/users/{ana.pk}", {"what": "activate"})
    assert token_of_header(f"Bearer {text}") is not None
    actions = list(AuditEvent.objects.order_by("pk").values_list("action", "actor", "subject"))
    assert actions[-2:] == [
        ("login deactivated", "operator", "ana"),
        ("login activated", "operator", "ana"),
    ]


def test_an_operator_keeps_their_own_login(site, operator):
    answer = site.post(f"/site/users/{operator.pk}", {"what": "deactivate"}, follow=True)
    assert "deactivate your own login" in answer.content.decode()
    assert User.objects.get().is_active
    assert "Deactivate" not in said(site, "/site/users")


def test_research_is_granted_and_withdrawn(site):
    nina = make_user("nina")

    def may():
        return may_research(User.objects.get(pk=nina.pk))

    assert not may()
    site.post(f"/site/users/{nina.pk}", {"what": "grant"})
    assert may()
    assert "create projects, start runs" in said(site, "/site/users?q=nina")
    site.post(f"/site/users/{nina.pk}", {"what": "withdraw"})
    assert not may()
    site.post(f"/site/users/{nina.pk}", {"what": "anything"})
    assert not may()


def test_hostile_names_are_text_and_a_search_without_a_result_says_so(site):
    User.objects.create_user("<img src=x onerror=alert(1)>")
    page = said(site, "/site/users")
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page
    assert "No login has “<bdi>&lt;b&gt;</bdi>”" in said(site, "/site/users?q=<b>")


def test_the_list_takes_the_same_queries_for_3_and_for_40_logins(
    site, django_assert_max_num_queries
):
    with django_assert_max_num_queries(5):
        site.get("/site/users")
    for number in range(40):
        make_user(f"user-{number}")
    with django_assert_max_num_queries(5):
        site.get("/site/users")
