"""Second factors by app and recovery code: when they are asked, what counts, who resets them."""

import re
import threading
import time
import zipfile
from datetime import timedelta

import pyotp
import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from annotation.people.invitations import Terms, invite, link_of
from fairjudge_site import backups
from judging.core.errors import UserError
from judging.projects import factors, logins
from judging.projects.accounts import password_link
from judging.projects.models import RecoveryCode, SecondFactor
from judging.projects.tokens import issue_token
from tests.factories import make_user

pytestmark = [pytest.mark.databases, pytest.mark.django_db]

GATE = "fairjudge_site.account.asks_for_second_factor"


@pytest.fixture(autouse=True)
def offered(settings):
    settings.FAIRJUDGE_SECOND_FACTOR = "OFFERED"


@pytest.fixture
def required(settings):
    settings.FAIRJUDGE_SECOND_FACTOR = "REQUIRED"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, GATE]


@pytest.fixture
def ana(project):
    return make_user("ana")


def log_in(client, path="/login/"):
    return client.post(path, {"username": "ana", "password": "pw"})


def is_in(client) -> bool:
    return client.get("/tokens/").status_code == 200


def said(response) -> str:
    return " ".join(response.content.decode().split())


def code_of(secret: str, steps: int = 0) -> str:
    """The code of the time step of now, or of one before or after it."""
    return pyotp.TOTP(secret).at(int(time.time()) + 30 * steps)


@pytest.fixture
def in_one_step():
    """Waits until the step has some seconds left, so that a test happens in one of them."""
    while time.time() % 30 > 24:
        time.sleep(0.2)


def add_app(client) -> tuple[str, list[str]]:
    """Adds an app as a person does: reads its key on the page, and enters what it shows."""
    page = client.get("/account/app")
    assert page.status_code == 200
    secret = re.search(r'id="app-key"[^>]*>(\w{32})<', page.content.decode())[1]
    # The step before, so that the codes of this one and the next are still to be used.
    done = client.post("/account/app", {"code": code_of(secret, -1), "name": "Phone"})
    codes = re.findall(r"<code>(\w{5}-\w{5})</code>", done.content.decode())
    return secret, codes


@pytest.fixture
def phone(ana, in_one_step):
    """The key of Ana's app, and her recovery codes."""
    client = Client()
    log_in(client)
    secret, codes = add_app(client)
    assert len(set(codes)) == factors.N_CODES
    return secret, codes


def test_an_app_is_added_once_it_shows_the_right_code(client, ana, in_one_step):
    log_in(client)
    assert "Your password alone opens this login." in said(client.get("/account/"))
    page = client.get("/account/app").content.decode()
    secret = re.search(r'id="app-key"[^>]*>(\w+)<', page)[1]
    assert 'src="data:image/svg+xml;base64,' in page
    refused = client.post("/account/app", {"code": "000000", "name": ""})
    assert refused.status_code == 422
    assert not SecondFactor.objects.exists()
    # The picture that was scanned stays the right one.
    assert secret in client.get("/account/app").content.decode()
    done = client.post("/account/app", {"code": code_of(secret), "name": "Ana’s  phone"})
    assert "Keep these recovery codes now" in said(done)
    assert SecondFactor.objects.get().name == "Ana’s phone"
    assert "Keep these recovery codes now" not in said(client.get("/account/"))
    assert client.get("/account/app").status_code == 200
    again = add_app(client)
    assert again[1] == []
    assert SecondFactor.objects.count() == 1


def test_the_login_asks_for_a_code_and_lets_nobody_in_before(client, phone):
    secret, _ = phone
    asked = log_in(client, "/login/?next=/docs/files")
    assert (asked.status_code, asked["Location"]) == (302, "/login/second")
    assert not is_in(client)
    assert client.get("/login/second").status_code == 200
    wrong = client.post("/login/second", {"code": "123"})
    assert wrong.status_code == 422
    assert "This code is wrong, too old, or was used before." in said(wrong)
    # Who logs in expects no change.
    assert "You can't go on yet. Correct these fields:" in said(wrong)
    assert "Nothing was changed" not in said(wrong)
    assert not is_in(client)
    came = client.post("/login/second", {"code": code_of(secret)})
    assert came["Location"] == "/docs/files"
    assert is_in(client)


@pytest.mark.parametrize("steps", [-2, 2, -20, 20])
def test_a_code_of_another_time_is_refused(client, phone, steps):
    log_in(client)
    assert client.post("/login/second", {"code": code_of(phone[0], steps)}).status_code == 422


def test_a_code_counts_once(phone):
    secret, _ = phone
    first, second = Client(), Client()
    for client in (first, second):
        log_in(client)
    code = code_of(secret)
    assert first.post("/login/second", {"code": f"{code[:3]} {code[3:]}"}).status_code == 302
    assert second.post("/login/second", {"code": code}).status_code == 422
    # Nor does the one before it, which somebody may have seen.
    assert second.post("/login/second", {"code": code_of(secret, -1)}).status_code == 422
    assert second.post("/login/second", {"code": code_of(secret, 1)}).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_of_two_that_come_at_once_with_a_code_one_gets_in(ana, phone):
    secret, codes = phone
    for code in (code_of(secret), codes[0]):
        barrier, let_in = threading.Barrier(4), []

        def come(code=code, barrier=barrier, let_in=let_in):
            barrier.wait()
            try:
                let_in.append(factors.check_code(ana, code))
            finally:
                connection.close()

        threads = [threading.Thread(target=come) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(let_in) == [False, False, False, True]
        AccessAttempt.objects.all().delete()


def test_a_recovery_code_counts_once_however_it_is_typed(client, phone):
    code = phone[1][0]
    log_in(client)
    typed = {"code": f" {code.lower().replace('-', ' ')} "}
    assert client.post("/login/second", typed).status_code == 302
    assert "You have 9 unused recovery codes." in said(client.get("/account/"))
    other = Client()
    log_in(other)
    assert other.post("/login/second", {"code": code}).status_code == 422


def test_new_recovery_codes_replace_the_old_ones(client, phone):
    log_in(client)
    client.post("/login/second", {"code": code_of(phone[0])})
    made = client.post("/account/codes")
    new = re.findall(r"<code>(\w{5}-\w{5})</code>", made.content.decode())
    assert len(new) == factors.N_CODES
    user = User.objects.get(username="ana")
    assert not factors.check_code(user, phone[1][1])
    assert factors.check_code(user, new[0])


def test_codes_cannot_be_guessed_in_any_number_of_processes(client, phone, settings):
    secret, codes = phone
    log_in(client)
    for _ in range(settings.AXES_FAILURE_LIMIT):
        assert client.post("/login/second", {"code": "000000"}).status_code == 422
    # From another browser and another address, and with codes that are right.
    other = Client(REMOTE_ADDR="192.0.2.9")
    assert log_in(other)["Location"] == "/login/second"
    for right in (code_of(secret), codes[0]):
        locked = other.post("/login/second", {"code": right})
        assert locked.status_code == 429
        assert "Too many wrong codes were entered for this login." in said(locked)
    assert not is_in(other)
    # The count is in the database, without an address, and it passes.
    attempt = AccessAttempt.objects.get(username=factors.tries_of("ana"))
    assert attempt.ip_address is None
    past = timezone.now() - settings.AXES_COOLOFF_TIME - timedelta(seconds=1)
    AccessAttempt.objects.filter(pk=attempt.pk).update(attempt_time=past)
    assert other.post("/login/second", {"code": code_of(secret)}).status_code == 302
    assert not AccessAttempt.objects.filter(username=factors.tries_of("ana")).exists()


def test_a_second_password_does_not_reset_the_count(client, phone, settings):
    statuses = []
    for _ in range(settings.AXES_FAILURE_LIMIT + 1):
        log_in(client)
        statuses.append(client.post("/login/second", {"code": "000000"}).status_code)
    assert statuses == [*[422] * settings.AXES_FAILURE_LIMIT, 429]


def test_a_link_that_sets_a_password_replaces_no_second_factor(client, ana, phone):
    link = password_link(User.objects.get(pk=ana.pk)).split("8000", 1)[1]
    form = client.get(link, follow=True)
    address = form.redirect_chain[-1][0]
    words = {"new_password1": "a long new one 7", "new_password2": "a long new one 7"}
    assert client.post(address, words)["Location"] == "/login/second"
    assert not is_in(client)
    assert client.post("/login/second", {"code": code_of(phone[0])}).status_code == 302
    assert is_in(client)


def test_what_began_with_a_password_ends_with_it_and_after_ten_minutes(client, ana, phone):
    log_in(client)
    ana.set_password("another")
    ana.save()
    late = client.post("/login/second", {"code": code_of(phone[0])})
    assert late["Location"] == "/login/"
    ana.set_password("pw")
    ana.save()
    log_in(client)
    session = client.session
    session["expected_second_step"] |= {"until": time.time() - 1}
    session.save()
    assert client.get("/login/second")["Location"] == "/login/"
    log_in(client)
    User.objects.filter(pk=ana.pk).update(is_active=False)
    assert client.get("/login/second")["Location"] == "/login/"


def test_secrets_are_in_no_table_and_no_backup(ana, phone, tmp_path):
    secret, codes = phone
    row = SecondFactor.objects.get()
    assert secret not in row.secret
    assert factors.unseal(row.secret) == secret
    assert len(RecoveryCode.objects.values_list("digest").distinct()) == factors.N_CODES
    kept = [str(each) for model in (RecoveryCode, SecondFactor) for each in model.objects.values()]
    plain = [code.replace("-", "") for code in codes]
    assert not any(word in text for text in kept for word in [secret, *codes, *plain])


def test_a_secret_under_way_is_encrypted_in_the_session(client, ana):
    log_in(client)
    page = client.get("/account/app").content.decode()
    secret = re.search(r'id="app-key"[^>]*>(\w+)<', page)[1]
    kept = [str(row.get_decoded()) for row in Session.objects.all()]
    assert "new_app_secret" in "".join(kept)
    assert secret not in "".join(kept)


def test_another_secret_key_is_a_sentence(client, phone, settings):
    log_in(client)
    session = client.session
    settings.SECRET_KEY = "another" * 10
    # The signature of sessions changes with the key too, so what was kept is kept again.
    log_in(client)
    answer = client.post("/login/second", {"code": code_of(phone[0])})
    assert answer.status_code == 422
    assert "The secret key of this site has changed" in said(answer)
    assert session is not None


def test_removing_a_factor_takes_a_recent_proof(client, ana, phone):
    secret, codes = phone
    log_in(client)
    client.post("/login/second", {"code": code_of(secret)})
    number = SecondFactor.objects.get().pk
    session = client.session
    session[logins.PROVED] = 0
    session.save()
    for path in (f"/account/factors/{number}", "/account/codes"):
        assert client.post(path)["Location"] == "/login/confirm?next=%2Faccount%2F"
    assert client.get("/account/app")["Location"] == "/login/confirm?next=%2Faccount%2Fapp"
    assert SecondFactor.objects.exists()
    assert client.post("/login/confirm?next=/account/", {"code": "1"}).status_code == 422
    proved = client.post("/login/confirm?next=https://evil.example/", {"code": codes[3]})
    assert proved["Location"] == "/account/"
    client.post(f"/account/factors/{number}")
    assert not SecondFactor.objects.exists()
    assert not RecoveryCode.objects.exists()
    assert log_in(Client())["Location"] == "/"


def test_without_a_factor_the_password_is_the_proof(client, ana):
    log_in(client)
    session = client.session
    session[logins.PROVED] = 0
    session.save()
    assert client.post("/login/confirm", {"password": "no"}).status_code == 422
    assert client.get("/account/app").status_code == 302
    assert client.post("/login/confirm?next=/account/app", {"password": "pw"}).status_code == 302
    assert client.get("/account/app").status_code == 200


def test_nobody_reaches_the_factor_of_another(client, phone):
    make_user("ben")
    client.post("/login/", {"username": "ben", "password": "pw"})
    assert client.post(f"/account/factors/{SecondFactor.objects.get().pk}").status_code == 404
    assert client.post("/account/codes")["Location"] == "/account/"
    assert SecondFactor.objects.exists()


# A site that requires one


def test_a_site_that_requires_one_leads_there_first(client, ana, required, in_one_step):
    log_in(client)
    for path in ("/", "/tokens/", "/annotate/"):
        led = client.get(path)
        assert (led.status_code, led["Location"]) == (302, "/account/")
    assert "This site requires a second factor." in said(client.get("/account/"))
    voting = client.post("/annotate/", headers={"X-Annotate": "1"})
    assert voting.status_code == 409
    for path in ("/docs/files", "/docs/glossary"):
        assert client.get(path).status_code == 200
    add_app(client)
    assert is_in(client)


def test_sessions_from_before_are_asked_for_it(client, ana, phone, required):
    client.force_login(ana)
    led = client.get("/tokens/?page=2")
    assert led["Location"] == "/login/confirm?next=%2Ftokens%2F%3Fpage%3D2"
    came = client.post(led["Location"], {"code": code_of(phone[0])})
    assert came["Location"] == "/tokens/?page=2"
    assert is_in(client)


def test_tokens_go_on_without_a_second_factor(client, ana, required):
    _, text = issue_token(ana, "notebook", ["read"])
    answer = client.get("/api/v1/me", headers={"Authorization": f"Bearer {text}"})
    assert answer.status_code == 200


def test_an_invitation_is_used_as_before_and_then_leads_there(client, project, required):
    path = link_of(invite(project, None, Terms(uses=1))).split("8000", 1)[1]
    words = {"username": "newcomer", "password1": "a long one 77", "password2": "a long one 77"}
    joined = client.post(path, words)
    assert joined["Location"] == "/annotate/"
    assert project.memberships.filter(user__username="newcomer").exists()
    assert client.get("/annotate/")["Location"] == "/account/"


def test_a_person_of_a_panel_is_not_asked(client, ana, required):
    client.force_login(ana)
    session = client.session
    session["crowd"] = 1
    session.save()
    assert client.get("/account/")["Location"] == "/crowd/"


# Reset


def test_the_operator_resets_it_which_ends_all_sessions(client, phone):
    log_in(client)
    client.post("/login/second", {"code": code_of(phone[0])})
    sue = Client()
    sue.force_login(make_user("sue", is_superuser=True))
    page = said(sue.get("/site/users"))
    assert 'Reset second factor <span class="visually-hidden">of ana</span>' in page
    assert "of sue" not in page
    ana = User.objects.get(username="ana")
    done = sue.post(f"/site/users/{ana.pk}", {"what": "reset"}, follow=True)
    assert "ana has no second factor any more, and is logged out everywhere." in said(done)
    assert not is_in(client)
    assert log_in(client)["Location"] == "/"


def test_the_command_resets_it(phone, capsys):
    call_command("reset_second_factor", "ana")
    assert "ana has no second factor any more" in capsys.readouterr().out
    call_command("reset_second_factor", "ana")
    assert "ana had no second factor. Nothing was changed." in capsys.readouterr().out
    assert not RecoveryCode.objects.exists()


# Without the setting


def test_without_the_setting_nothing_is_asked_or_shown(
    client, phone, settings, django_assert_num_queries
):
    settings.FAIRJUDGE_SECOND_FACTOR = "OFF"
    assert log_in(client)["Location"] == "/"
    assert "Second factor" not in said(client.get("/account/"))
    for path in ("/account/app", "/account/passkey"):
        assert client.get(path).status_code == 404
    for path in ("/account/codes", f"/account/factors/{SecondFactor.objects.get().pk}"):
        assert client.post(path).status_code == 404
    with django_assert_num_queries(0):
        assert not factors.has_factor(User(pk=1))


def test_a_backup_holds_no_session_and_restoring_ends_them(tmp_path, transactional_db, settings):
    if connection.vendor != "sqlite":
        pytest.skip("tests/fairjudge_site/test_backups.py restores on PostgreSQL")
    make_user("ana")
    client = Client()
    log_in(client)
    secret, codes = add_app(client)
    key = client.session.session_key
    path = tmp_path / "backup.zip"
    backups.back_up(path)
    with zipfile.ZipFile(path) as packed:
        content = b"".join(packed.read(name) for name in packed.namelist())
    held = [word for word in (key, secret, *codes) if word.encode() in content]
    assert held == []
    backups.restore(path)
    assert not logins.sessions_of(User.objects.get(username="ana")).exists()
    assert SecondFactor.objects.count() == 1


def test_what_cannot_be_a_code_or_a_name_is_refused_without_harm(ana, client):
    log_in(client)
    for code in ("", "\0", "١٢٣٤٥٦", "9" * 400, "²²²²²²", "12345", "-1"):
        assert not code or not factors.check_code(ana, code)
        AccessAttempt.objects.all().delete()
        assert client.post("/account/app", {"code": code, "name": "x"}).status_code == 422
        AccessAttempt.objects.all().delete()
    with pytest.raises(UserError, match="at most 60 characters"):
        factors.add_app(ana, factors.new_secret(), "1", "x" * 61)
