"""The pages of the site's owner."""

from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.utils import timezone
from kombu import Queue

from annotation.models import Job, Round, RoundWork
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.caching import code_version
from judging.core.models import Alert, Worker
from judging.core.storage import key_mark
from judging.projects.access import may_research
from judging.projects.models import AuditEvent, Delivery, Role
from judging.projects.tokens import issue_token, token_of_header
from judging.projects.webhooks import add_webhook, send_again, send_test
from judging.runs.endpoints import endpoint_names, key_of, named_endpoint
from judging.runs.models import SiteEndpoint
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
    assert "<td>quick, runs</td>" in page
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
    assert "No run, import, round, file or deletion is in progress." in said(site)
    make_examples(project, 4)
    run = make_run(project, state="running")
    make_run(project)
    open_round(project, None, None, RoundSettings(everything=True, votes=1))
    assert "opening the round" not in said(site)
    RoundWork.objects.filter(round=Round.objects.get()).update(state="writing", n_done=3)
    page = said(site)
    assert "round 1: opening the round" in page
    assert "3 of 4" in page
    # Four examples in both orders, k times each.
    assert f"0 of {8 * run.k}" in page
    assert f"/runs/{run.number}" in page
    assert "run 2" not in page


def test_files_and_readings_of_workers_are_listed(site, project):
    make_examples(project, 4)
    reading = {"token": "a", "state": "reading", "total": 24, "at": "2026-01-01", "read": 7}
    make_run(project, progress={"rereading": reading})
    Job.objects.create(
        project=project, kind="report", asked={"run": 1, "kind": "zip"}, n_done=5, holder="a"
    )
    page = said(site)
    assert "re-parsing of run 1" in page
    assert "7 of 24" in page
    assert "report (job" in page
    assert "5 rows" in page


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


def test_the_owner_names_changes_and_removes_endpoints_and_never_their_keys(site, settings):
    settings.FAIRJUDGE_OTHER_KEYS = {"LAB_KEY": "sk-very-secret"}
    settings.FAIRJUDGE_ENDPOINTS = {"env": {"base_url": "http://env/v1", "key_variable": ""}}
    lab = {"name": "lab", "address": "http://lab:8000", "variable": "LAB_KEY"}
    page = " ".join(site.post("/site/endpoints", lab, follow=True).content.decode().split())
    assert "http://lab:8000/v1" in page
    assert "sk-very-secret" not in page
    assert endpoint_names() == ["env", "lab", "local"]
    assert key_of(named_endpoint("lab")) == "sk-very-secret"
    site.post("/site/endpoints", lab | {"address": "https://lab.example.org/v1"})
    assert named_endpoint("lab").base_url == "https://lab.example.org/v1"
    changed = AuditEvent.objects.get(action="endpoint changed")
    assert changed.detail["before"]["address"] == "http://lab:8000/v1"
    missing = site.post("/site/endpoints", lab | {"variable": "NO_TOKEN"}, follow=True)
    assert "Set NO_TOKEN and restart" in missing.content.decode()
    site.post("/site/endpoints", {"name": "lab", "remove": ""})
    assert endpoint_names() == ["env", "local"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "env"}, "The environment names the endpoint env"),
        ({"name": "local"}, "The environment names the endpoint local"),
        ({"name": ""}, "Give a name"),
        ({"name": "lab\u202eevil"}, "visible characters"),
        ({"name": "a\x00"}, "contain"),
        ({"address": "ftp://lab"}, "Nothing was changed."),
        ({"variable": "sk-1234"}, "never the key itself"),
        ({"variable": "FAIRJUDGE_SECRET_KEY"}, "own variables"),
        ({"variable": "AWS_SECRET_ACCESS_KEY"}, "own variables"),
        ({"variable": "DATABASE_URL"}, "ends with _KEY or _TOKEN"),
    ],
)
def test_an_endpoint_that_can_not_be_used_changes_nothing(site, settings, change, said):
    settings.FAIRJUDGE_ENDPOINTS = {"env": {"base_url": "http://env/v1", "key_variable": ""}}
    lab = {"name": "lab", "address": "http://lab/v1", "variable": "LAB_KEY"}
    answer = site.post("/site/endpoints", lab | change)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert said in page
    # It is said at the form, below everything else on the page.
    assert page.index("Add or change an endpoint") < page.index(said)
    assert not SiteEndpoint.objects.exists()


def test_a_worker_with_another_key_or_release_is_named(site):
    now = timezone.now()
    both = {"queues": "quick,runs", "started_at": now, "seen_at": now}
    worker = Worker.objects.create(
        name="far@away", release=code_version(), secret_key=key_mark(), **both
    )
    assert "far@away has" not in said(site)
    Worker.objects.filter(pk=worker.pk).update(release="0" * 16, secret_key="0" * 16)
    assert "far@away has another secret key" in said(site)
    assert "far@away runs another release" in said(site)


def test_alerts_and_who_gets_them_are_shown(site, settings):
    assert "FairJudge tells nobody about problems yet." in said(site)
    settings.FAIRJUDGE_ALERT_MAIL = ["ops@example.org"]
    settings.FAIRJUDGE_ALERT_URL = "https://hooks.example.org/secret"
    Alert.objects.create(key="backup", said="The last backup was late.", began_at=timezone.now())
    page = said(site)
    assert "ops@example.org" in page
    assert "hooks.example.org" in page
    assert "/secret" not in page
    assert "The last backup was late." in page
