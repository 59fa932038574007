"""What happens to a request when the network or the site fails, against the real site."""

import itertools
import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from fairjudge_client import (
    Conflict,
    FairJudge,
    Invalid,
    NotFound,
    NotUnderstood,
    Problem,
    RateLimited,
    ServerFailed,
    TooLarge,
    Unreachable,
)
from fairjudge_client.session import LONGEST_RETRY_AFTER

from judging.dataset.models import Import
from judging.projects.models import KeptAnswer, Project
from tests.client.proxy import cut, lost, passed_on, problem, refused, status

pytestmark = pytest.mark.django_db(transaction=True)

PAIR = {"external_id": "a", "question": "Q?", "response_1": "One.", "response_2": "Two."}


@pytest.fixture
def waits(monkeypatch):
    """How long the client would have waited each time."""
    seconds = []
    monkeypatch.setattr("fairjudge_client.transport.time.sleep", seconds.append)
    return seconds


@pytest.mark.databases
@pytest.mark.parametrize("fault", [refused, lost, cut, status(503), status(502)])
def test_a_post_is_repeated_with_the_same_key_and_body_and_done_once(fj, proxy, fault):
    fj.me()
    proxy.faults = [fault, fault]
    made = fj.create_project("New pairs")
    assert made.slug == "new-pairs"
    posts = [seen for seen in proxy.log if seen.method == "POST"]
    assert len(posts) == 3
    assert len({(seen.headers["idempotency-key"], seen.body) for seen in posts}) == 1
    assert Project.objects.filter(slug="new-pairs").count() == 1


def test_rows_from_an_iterator_are_sent_again_as_they_were(fj, proxy):
    project = fj.create_project("New")
    proxy.faults = [lost, refused]
    rows = (PAIR | {"external_id": str(n)} for n in range(3000))
    imported = project.examples.upsert(rows)
    uploads = [seen for seen in proxy.log if "/examples?skip_invalid=false" in seen.path]
    assert len(uploads) == 3
    assert len({seen.body for seen in uploads}) == 1
    assert int(uploads[0].headers["content-length"]) == len(uploads[0].body) > 2**17
    assert uploads[0].body.count(b"\n") == 3000
    assert (imported.number, imported.info.rows) == (1, 3000)
    assert Import.objects.count() == 1


def test_each_post_has_a_key_of_its_own_unless_you_give_one(fj, proxy):
    project = fj.create_project("New", idempotency_key="mine")
    assert fj.create_project("New", idempotency_key="mine").slug == project.slug
    fj.create_project("Another")
    fj.create_project("A third")
    keys = [seen.headers["idempotency-key"] for seen in proxy.log]
    assert keys[:2] == ["mine", "mine"]
    assert len(set(keys)) == 3
    assert KeptAnswer.objects.count() == 3
    with pytest.raises(Conflict) as other:
        fj.create_project("Other", idempotency_key="mine")
    assert other.value.code == "idempotency_key_reused"


def test_retry_after_is_waited_for(fj, proxy):
    proxy.faults = [problem(429, "too_many_requests", Retry_After=1), status(503, Retry_After="1")]
    fj.me()
    times = [seen.at for seen in proxy.log]
    assert all(later - earlier >= 1 for earlier, later in itertools.pairwise(times))
    assert proxy.statuses == [429, 503, 200]


def test_a_date_in_retry_after_is_waited_for(fj, proxy, waits):
    later = datetime.now(UTC) + timedelta(seconds=LONGEST_RETRY_AFTER)
    proxy.faults = [status(503, Retry_After=format_datetime(later, usegmt=True))]
    fj.me()
    (wait,) = waits
    assert 0 < wait <= LONGEST_RETRY_AFTER
    assert proxy.statuses == [503, 200]


def test_a_wait_of_hours_is_an_error_that_says_how_long(fj, proxy):
    proxy.faults = [problem(429, "too_many_requests", Retry_After=7200)]
    with pytest.raises(RateLimited) as refusal:
        fj.me()
    assert refusal.value.retry_after == 7200
    assert len(proxy.log) == 1


def test_the_limit_of_the_real_site_is_waited_for(fj, proxy, settings, waits):
    """The site counts requests in each minute. Its `Retry-After` is the rest of that minute."""
    settings.FAIRJUDGE_API_RATE = 2
    fj.me()
    fj.me()
    with pytest.raises(RateLimited) as refusal:
        fj.me()
    assert refusal.value.code == "too_many_requests"
    assert len(waits) == fj._session.retries
    assert all(1 <= wait <= 60 for wait in waits)


def test_after_the_last_attempt_the_reason_is_said(fj, proxy):
    fj.me()
    proxy.faults = [refused] * 6
    with pytest.raises(Unreachable, match="asked 6 times") as error:
        fj.me()
    assert (error.value.code, error.value.status) == ("unreachable", None)
    proxy.faults = [status(503, b"<html>down</html>")] * 6
    with pytest.raises(ServerFailed, match="status 503"):
        fj.me()


def test_a_site_that_never_answered_is_not_asked_long(token, waits):
    said = pytest.raises(Unreachable, match="asked 2 times")
    with FairJudge("http://127.0.0.1:9", token) as nowhere, said:
        nowhere.me()
    assert len(waits) == 1
    assert sum(waits) < 2


def test_refusals_are_not_repeated(fj, proxy):
    fj.create_project("New")
    with pytest.raises(Invalid, match="exists already") as refusal:
        fj.create_project("New")
    assert (refusal.value.code, refusal.value.status) == ("refused", 422)
    with pytest.raises(NotFound):
        fj.project("nowhere").info()
    proxy.faults = [problem(500, "unexpected")]
    with pytest.raises(ServerFailed):
        fj.me()
    assert proxy.statuses == [201, 422, 404, 500]


def test_an_attempt_that_is_still_under_way_is_waited_for(fj, proxy):
    """The first attempt's answer is lost while the site still works on it."""
    proxy.faults = [lost, problem(409, "idempotency_key_reused"), passed_on]
    assert fj.create_project("New").slug == "new"
    assert proxy.statuses == [None, 409, 201]


def test_a_refusal_names_its_field_and_lines(fj):
    with pytest.raises(Invalid) as refusal:
        fj.create_project("x" * 300)
    assert (refusal.value.code, refusal.value.field) == ("field_unusable", "body.name")
    project = fj.create_project("New")
    rows = [PAIR, PAIR | {"external_id": "b", "gold_label": "perhaps"}]
    with pytest.raises(Invalid, match="Nothing was imported") as refusal:
        project.examples.upsert(rows)
    (fault,) = refusal.value.errors
    assert (refusal.value.code, fault.line, fault.field) == ("rows_invalid", 2, "gold_label")
    assert project.examples.upsert(rows, skip_invalid=True).info.refused == 1


@pytest.mark.parametrize(
    ("code", "kind", "name"),
    [(413, TooLarge, "too_large"), (429, RateLimited, "too_many_requests")],
)
def test_a_proxy_that_refuses_has_the_codes_of_the_site(proxy, token, code, kind, name):
    proxy.faults = [status(code, b"<html>No</html>")]
    with FairJudge(proxy.url, token, retries=0) as fj, pytest.raises(kind) as refusal:
        fj.me()
    assert (refusal.value.code, refusal.value.status) == (name, code)


@pytest.mark.parametrize("body", [b"<html>Welcome</html>", b"[]", b'{"user": 3}', b"\xff"])
def test_another_server_is_told_apart(fj, proxy, body):
    proxy.faults = [status(200, body)]
    with pytest.raises(NotUnderstood, match="URL"):
        fj.me()
    proxy.faults = [status(404, body)]
    with pytest.raises(NotUnderstood):
        fj.me()


def test_the_token_follows_no_redirect(fj, proxy):
    proxy.faults = [status(302, Location="https://elsewhere.example/")]
    with pytest.raises(NotUnderstood, match=r"elsewhere\.example"):
        fj.me()
    assert len(proxy.log) == 1


def test_an_unchanged_read_comes_without_a_body(fj, proxy):
    project = fj.create_project("New")
    first = project.info()
    assert project.info() == first
    assert proxy.statuses[-2:] == [200, 304]
    Project.objects.update(description="Other.")
    assert project.info().description == "Other."
    assert proxy.statuses[-1] == 200


def test_answers_that_are_kept_take_little_memory(fj, proxy, monkeypatch):
    monkeypatch.setattr("fairjudge_client.session._MOST_KEPT", 1000)
    for n in range(9):
        fj.create_project(f"p{n}").info()
    kept = fj._session._kept
    assert 0 < sum(len(one.body) for one in kept.values()) <= 1000
    assert fj.project("p8").info().slug == "p8"
    assert proxy.statuses[-1] == 304


def secrets_in(text, token):
    return token in text or token.split("_")[-1] in text


def test_the_token_is_shown_nowhere(fj, proxy, token, caplog):
    caplog.set_level(logging.DEBUG)
    project = fj.create_project("New")
    logged = [caplog.text, *(repr(vars(record)) for record in caplog.records)]
    errors = []
    proxy.faults = [status(302, Location=f"https://elsewhere.example/?t={token}")]
    echo = f'{{"code": "refused", "detail": "You sent {token}"}}'.encode()
    for act in (fj.me, lambda: fj.project("nowhere").info(), fj.me, fj.me):
        try:
            act()
        except Exception as error:
            errors.append(error)
        proxy.faults = [status(422, echo)] if len(errors) == 2 else [refused] * 9
    assert len(errors) == 4
    assert isinstance(errors[2], Problem)
    shown = [repr(error) + str(error) for error in errors]
    shown += [repr(error.__context__) + repr(error.__cause__) for error in errors]
    shown += [repr(one) for one in (fj, fj._session, fj.__dict__, project, project.runs, fj.api)]
    shown += [repr(vars(fj._session)), *logged]
    assert "POST" in logged[0]
    assert not [text for text in shown if secrets_in(text, token)]


@pytest.mark.parametrize(
    ("url", "token", "said"),
    [
        ("", "fj_x", "FAIRJUDGE_URL"),
        ("https://a.example", "", "FAIRJUDGE_TOKEN"),
        ("a.example", "fj_x", "https://"),
        ("ftp://a.example", "fj_x", "https://"),
        ("https://ann:pw@a.example", "fj_x", "password"),
        ("https://a.example", "fj_secret\nfj_2", "Copy it again"),
        ("https://a.example", "fj_sécret", "Copy it again"),
        ("https://a.example", "two words", "Copy it again"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_sent(url, token, said):
    with pytest.raises(ValueError, match=said) as error:
        FairJudge(url, token)
    assert "cret" not in str(error.value)


def test_site_and_token_come_from_the_environment(proxy, token, monkeypatch):
    monkeypatch.setenv("FAIRJUDGE_URL", f"{proxy.url}/api/v1/")
    monkeypatch.setenv("FAIRJUDGE_TOKEN", f"{token}\n")
    with FairJudge() as fj:
        assert fj.me().user == "otto"
        assert fj.url == proxy.url


def test_threads_share_a_client(fj, proxy):
    proxy.faults = [passed_on, lost, refused, lost]
    fj.me()
    with ThreadPoolExecutor(6) as threads:
        made = list(threads.map(fj.create_project, (f"p{n}" for n in range(6))))
        infos = list(threads.map(lambda project: project.info(), made * 3))
    assert [info.slug for info in infos] == [f"p{n}" for n in range(6)] * 3
    assert Project.objects.count() == 6


def test_a_client_cannot_be_pickled_with_its_token(fj):
    import pickle

    with pytest.raises(TypeError, match="token"):
        pickle.dumps(fj)
