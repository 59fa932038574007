"""One's own page: sessions that are listed and ended, and the mail for a forgotten password."""

import re
from datetime import timedelta

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core import mail
from django.test import Client
from django.utils import timezone

from annotation import letters
from judging.projects import logins
from judging.projects import mail as queue
from judging.projects.accounts import forget_logins
from judging.projects.models import LoginSession, Mail, MailServer, PasswordLink
from tests.factories import make_user

pytestmark = [pytest.mark.databases, pytest.mark.django_db]

FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:142.0) Gecko/20100101 Firefox/142.0"
PHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like "
    "Gecko) Version/18.6 Mobile/15E148 Safari/604.1"
)


@pytest.fixture
def ana(project):
    return make_user("ana")


def logged_in(agent: str = FIREFOX, password: str = "pw") -> Client:
    client = Client(headers={"User-Agent": agent})
    client.post("/login/", {"username": "ana", "password": password})
    assert is_in(client)
    return client


def is_in(client) -> bool:
    return client.get("/tokens/").status_code == 200


def said(response) -> str:
    return " ".join(response.content.decode().split())


@pytest.mark.parametrize(
    ("agent", "device"),
    [
        (FIREFOX, "Firefox on Windows"),
        (PHONE, "Safari on iPhone"),
        (
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
            "Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0",
            "Edge on Linux",
        ),
        (
            "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) "
            "Chrome/140.0.0.0 Mobile Safari/537.36",
            "Chrome on Android",
        ),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like "
            "Gecko) Version/18.6 Safari/605.1.15",
            "Safari on macOS",
        ),
        ("curl/8.5.0", "A browser or a program"),
        ("<script>alert(1)</script>" * 99, "A browser or a program"),
        ("", "A browser or a program"),
    ],
)
def test_a_session_is_named_by_browser_and_system(agent, device):
    assert logins.device_of(agent) == device


def test_sessions_are_listed_without_addresses_and_ended_one_by_one(ana):
    here, there = logged_in(), logged_in(PHONE)
    page = said(here.get("/account/"))
    assert "Firefox on Windows" in page
    assert "this session" in page
    assert 'Log out there <span class="visually-hidden">Safari on iPhone</span>' in page
    kept = str(list(LoginSession.objects.values()))
    assert "127.0.0.1" not in kept
    assert "Mozilla" not in kept
    number = LoginSession.objects.get(device="Safari on iPhone").pk
    done = here.post("/account/sessions", {"session": number}, follow=True)
    assert "You are logged out there: Safari on iPhone." in said(done)
    assert is_in(here)
    assert not is_in(there)
    assert here.post("/account/sessions", {"session": number}).status_code == 404


@pytest.mark.parametrize("number", ["", "x", "9" * 30, "-1", "²"])
def test_what_names_no_session_ends_none(ana, number):
    client = logged_in()
    done = client.post("/account/sessions", {"session": number}, follow=True)
    assert "Choose a session to end. Nothing was changed." in said(done)


def test_nobody_ends_the_session_of_another(ana):
    here = logged_in()
    ben = Client()
    ben.force_login(make_user("ben"))
    number = LoginSession.objects.get().pk
    assert ben.post("/account/sessions", {"session": number}).status_code == 404
    ben.post("/account/sessions", {"session": "others"})
    assert is_in(here)


def test_all_others_end_at_once_also_those_in_no_list(ana):
    here, there, unlisted = logged_in(), logged_in(PHONE), Client()
    unlisted.force_login(ana)
    assert is_in(unlisted)
    here.post("/account/sessions", {"session": "others"})
    assert [is_in(client) for client in (here, there, unlisted)] == [True, False, False]
    assert logins.sessions_of(ana).count() == 1


def test_a_session_from_before_the_list_says_so(ana):
    client = Client()
    client.force_login(ana)
    assert "This session began before sessions were listed." in said(client.get("/account/"))


def test_a_session_stays_in_the_list_when_its_key_changes(ana):
    here, there = logged_in(), logged_in(PHONE)
    words = {"old_password": "pw", "new_password1": "a new one 77", "new_password2": "a new one 77"}
    assert here.post("/password/", words).status_code == 302
    assert not is_in(there)
    page = here.get("/account/")
    assert "this session" in said(page)


def test_a_session_that_ended_is_in_no_list(ana):
    here, there = logged_in(), logged_in(PHONE)
    there.post("/logout/")
    assert [one.device for one in logins.sessions_of(ana)] == ["Firefox on Windows"]
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert not logins.sessions_of(ana)
    forget_logins()
    assert not LoginSession.objects.exists()
    assert not is_in(here)


def test_the_last_use_is_written_now_and_then(ana, django_assert_num_queries, monkeypatch):
    client = logged_in()
    earlier = timezone.now() - timedelta(minutes=11)
    LoginSession.objects.update(used_at=earlier)
    monkeypatch.setattr(logins, "_noted", logins._Noted())
    client.get("/docs/files")
    assert is_in(client)
    used = LoginSession.objects.get().used_at
    assert used > earlier + timedelta(minutes=10)
    # Within some minutes no request writes again, nor asks.
    key = client.session.session_key
    with django_assert_num_queries(0):
        logins.note_use(key)


def test_an_erased_person_leaves_no_session(ana):
    from annotation.people.personal_data import counts_held_about, erase_person

    logged_in()
    assert ("session", 1) in counts_held_about(ana)
    erase_person(ana, None)
    assert not LoginSession.objects.exists()


# A forgotten password


@pytest.fixture
def has_mail(settings):
    settings.MAIL = {"EMAIL_HOST": "localhost"}
    mail.outbox.clear()


def ask(who: str, client: Client | None = None):
    return (client or Client()).post("/password/forgot", {"who": who})


def sent(n: int) -> bool:
    """Do a worker's part."""
    server = MailServer.objects.get()
    assert queue.send_due(server.pk, letters.write) == n
    return len(mail.outbox) == n


@pytest.mark.parametrize("who", ["ana", "ANA@uni.example"])
def test_a_mail_brings_a_link_that_sets_a_password_once(ana, has_mail, who):
    User.objects.update(email="ana@uni.example")
    assert "Forgot your password?" in said(Client().get("/login/"))
    assert "Look into your mail" in said(ask(who))
    assert sent(1)
    (message,) = mail.outbox
    assert message.to == ["ana@uni.example"]
    assert "for the login ana at FairJudge" in message.body
    link = re.search(r"http://127\.0\.0\.1:8000(/password/\S+)", message.body)[1]
    client = Client()
    page = client.get(link, follow=True)
    words = {"new_password1": "a new one 77", "new_password2": "a new one 77"}
    client.post(page.redirect_chain[-1][0], words)
    assert is_in(client)
    assert "no longer valid" in said(Client().get(link, follow=True))
    logged_in(password="a new one 77")


_TOKENS = re.compile(r'X-CSRFToken.*?}|csrfmiddlewaretoken" value="\w+"')


def test_nobody_learns_whether_there_is_such_a_login(ana, has_mail):
    make_user("no-mail")
    closed = make_user("closed", email="closed@uni.example", is_active=False)
    by_sign_on = make_user("by-sign-on", email="sso@uni.example")
    by_sign_on.set_unusable_password()
    by_sign_on.save()
    same = said(ask("ana"))
    for who in ("nobody", "no-mail", closed.email, by_sign_on.email, "' OR 1=1"):
        answer = said(ask(who, Client(REMOTE_ADDR="192.0.2.1")))
        assert _TOKENS.sub("", answer) == _TOKENS.sub("", same), who
    assert not PasswordLink.objects.exists()
    assert not Mail.objects.exists()
    assert ask("").status_code == ask("\0").status_code == 422
    assert mail.outbox == []


def test_one_login_gets_few_mails_whoever_asks(ana, has_mail):
    User.objects.update(email="ana@uni.example")
    for n in range(6):
        assert ask("ana", Client(REMOTE_ADDR=f"192.0.2.{n}")).status_code == 200
    assert PasswordLink.objects.count() == 3
    assert sent(3)


def test_one_address_asks_for_few(ana, has_mail, settings):
    for n in range(settings.AXES_FAILURE_LIMIT - 1):
        assert ask(f"person-{n}").status_code == 200
    ask("ana")
    later = ask("ana")
    assert later.status_code == 429
    assert "Someone at your address asked for links to set a password too often." in said(later)
    # Logging in there goes on, and so does asking from elsewhere.
    logged_in()
    assert ask("ana", Client(REMOTE_ADDR="192.0.2.7")).status_code == 200
    past = timezone.now() - settings.AXES_COOLOFF_TIME - timedelta(seconds=1)
    AccessAttempt.objects.update(attempt_time=past)
    forget_logins()
    assert not AccessAttempt.objects.exists()
    assert ask("ana").status_code == 200


def test_a_mail_that_cannot_be_sent_waits_and_its_log_holds_no_link(
    ana, has_mail, settings, caplog
):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9
    User.objects.update(email="ana@uni.example")
    assert ask("ana").status_code == 200
    assert not sent(1)
    (row,) = Mail.objects.values()
    assert (row["state"], row["attempts"]) == (Mail.State.WAITING, 1)
    assert "refused" in row["said"]
    assert "/password/" not in caplog.text.replace("/password/forgot", "") + str(row)


def test_without_mail_the_page_says_who_has_a_link(ana):
    assert Client().get("/password/forgot").status_code == 404
    assert ask("ana").status_code == 404
    page = said(Client().get("/login/"))
    assert "The owner of your project can send you a link." in page
    assert "password/forgot" not in page
