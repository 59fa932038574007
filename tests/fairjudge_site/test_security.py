import logging
from io import BytesIO

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import RequestFactory

from annotation.people.invitations import Terms, invite, link_of
from fairjudge_site.logs import SecretsFormatter, without_secrets
from fairjudge_site.requests import LimitedUploadHandler, client_address

PASSWORD = "correct horse battery staple"


@pytest.fixture
def ana(db):
    return User.objects.create_user("ana", password=PASSWORD)


def log_in(client, password, **headers):
    return client.post("/login/", {"username": "ana", "password": password}, headers=headers)


def test_pages_allow_no_inline_script_and_no_other_site(client, db):
    policy = client.get("/login/")["Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["img-src"] == "'self' data:"
    assert "unsafe" not in policy


def test_pages_carry_the_other_secure_headers(client, db):
    headers = client.get("/login/").headers
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"


def test_a_person_logs_in_and_out(client, ana):
    assert log_in(client, PASSWORD).status_code == 302
    assert client.get("/password/").status_code == 200
    assert client.post("/logout/").status_code == 302
    assert client.get("/password/")["Location"].startswith("/login/")


def test_guessing_a_password_is_stopped_and_the_right_one_waits_too(client, ana):
    statuses = [log_in(client, f"guess {number}").status_code for number in range(9)]
    assert statuses[:7] == [200] * 7
    assert statuses[-1] == 429
    assert log_in(client, PASSWORD).status_code == 429


@pytest.mark.databases
def test_a_name_longer_than_any_is_a_wrong_name(client, db):
    answer = client.post("/login/", {"username": "a" * 5000, "password": PASSWORD})
    assert answer.status_code == 200
    assert b"correct username and password" in answer.content


def test_guessing_from_one_address_does_not_lock_the_owner_out_elsewhere(client, ana, settings):
    settings.FAIRJUDGE_PROXIES = 1
    for number in range(9):
        log_in(client, f"guess {number}", x_forwarded_for="203.0.113.9")
    assert log_in(client, PASSWORD, x_forwarded_for="198.51.100.7").status_code == 302


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        (0, "203.0.113.9", "127.0.0.1"),
        (1, "203.0.113.9", "203.0.113.9"),
        # What the client claims stands to the left of what our proxy saw.
        (1, "6.6.6.6, 203.0.113.9", "203.0.113.9"),
        (2, "6.6.6.6, 203.0.113.9, 10.0.0.2", "203.0.113.9"),
        (2, "203.0.113.9", "127.0.0.1"),
        (1, "", "127.0.0.1"),
    ],
)
def test_a_forwarded_address_is_believed_only_from_our_own_proxies(
    settings, proxies, forwarded, address
):
    settings.FAIRJUDGE_PROXIES = proxies
    request = RequestFactory().get("/", headers={"x-forwarded-for": forwarded})
    assert client_address(request) == address


def test_an_upload_over_the_limit_is_refused_with_a_page_that_says_so(client, ana, settings):
    settings.FAIRJUDGE_MAX_UPLOAD_BYTES = 100_000
    client.force_login(ana)
    too_large = SimpleUploadedFile("pairs.csv", b"x" * 100_001)
    answer = client.post("/password/", {"file": too_large})
    assert answer.status_code == 413
    assert b"FAIRJUDGE_MAX_UPLOAD_MB" in answer.content
    just_fits = SimpleUploadedFile("pairs.csv", b"x" * 100_000)
    assert client.post("/password/", {"file": just_fits}).status_code == 200


def test_the_limit_counts_all_files_of_a_request(client, ana, settings):
    settings.FAIRJUDGE_MAX_UPLOAD_BYTES = 100_000
    client.force_login(ana)
    files = {f"file{number}": BytesIO(b"x" * 60_000) for number in range(2)}
    assert client.post("/password/", files).status_code == 413


@pytest.mark.parametrize("path", ["/login/", "/password/", "/p/vicuna/imports/", "/no-such-page"])
def test_an_upload_without_a_login_is_not_written_anywhere(client, project, path, monkeypatch):
    written = []
    monkeypatch.setattr(
        LimitedUploadHandler, "new_file", lambda *arguments, **more: written.append(arguments)
    )
    client.handler.enforce_csrf_checks = True
    answer = client.post(path, {"file": SimpleUploadedFile("pairs.csv", b"x" * 10**6)})
    assert (answer.status_code, written) == (302, [])
    assert answer["Location"].startswith("/login/")


def test_guessing_the_old_password_is_stopped_as_at_the_login(client, ana):
    client.force_login(ana)
    new = {"new_password1": "staple horse battery", "new_password2": "staple horse battery"}

    def change(old):
        return client.post("/password/", {"old_password": old, **new})

    statuses = [change(f"guess {number}").status_code for number in range(9)]
    assert statuses[:7] == [200] * 7
    assert statuses[-1] == 429
    assert change(PASSWORD).status_code == 429
    ana.refresh_from_db()
    assert ana.check_password(PASSWORD)


def test_a_password_is_changed_with_the_old_one(client, ana):
    client.force_login(ana)
    new = {"new_password1": "staple horse battery", "new_password2": "staple horse battery"}
    assert client.post("/password/", {"old_password": "wrong", **new}).status_code == 200
    assert client.post("/password/", {"old_password": PASSWORD, **new}).status_code == 302
    ana.refresh_from_db()
    assert ana.check_password("staple horse battery")


def test_what_an_endpoint_says_does_not_steer_the_terminal_that_shows_the_log():
    said = "\x1b[2Jgone \u202egnp.exe\rdone\x9b1m"
    record = logging.LogRecord("x", logging.INFO, "", 0, "said %s", (said,), None)
    assert SecretsFormatter().format(record) == "said \ufffd[2Jgone \ufffdgnp.exe\ufffddone\ufffd1m"


def test_keys_and_passwords_never_reach_the_log(settings):
    settings.FAIRJUDGE_ENDPOINT_KEYS = {"LAB_KEY": "sk-very-secret"}
    arguments = ("sk-very-secret", settings.SECRET_KEY)
    record = logging.LogRecord("x", logging.INFO, "", 0, "sent %s and %s", arguments, None)
    assert SecretsFormatter().format(record) == "sent *** and ***"


def test_an_error_that_quotes_a_key_is_logged_without_it(settings):
    settings.FAIRJUDGE_ENDPOINT_KEYS = {"LAB_KEY": "sk-very-secret"}
    try:
        raise ValueError("refused sk-very-secret")
    except ValueError as error:
        failure = (type(error), error, error.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, "", 0, "failed", None, failure)
    assert "ValueError: refused ***" in SecretsFormatter().format(record)


def test_links_that_let_people_in_are_not_logged_when_their_form_is_refused(
    client, project, caplog
):
    link = link_of(invite(project, None, Terms()))
    token = link.rstrip("/").rpartition("/")[2]
    answer = client.post(f"/join/{token}/", {"username": "eve", "password1": "a"})
    assert answer.status_code == 422
    lines = [SecretsFormatter().format(record) for record in caplog.records]
    assert any("/join/***" in line for line in lines)
    assert token not in "".join(lines)
    caplog.clear()
    # Signed, but of a round that is gone.
    assert client.get(f"/crowd/{token}/", {"PROLIFIC_PID": "worker-1"}).status_code == 410
    line = SecretsFormatter().format(caplog.records[-1])
    assert "/crowd/***/" in line
    assert token not in line
    assert "worker-1" not in line
    assert without_secrets("Not Found: /p/a/rounds/1/crowd/marks").endswith("/1/crowd/marks")
