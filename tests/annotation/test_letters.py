"""Mail, sent to a real SMTP server on loopback that refuses, falls silent and encrypts."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.urls import reverse
from django.utils import timezone

from annotation import letters
from annotation.letters import invite_by_mail, look_who_waits, mail_password_link, named
from annotation.models import Invitation, Item, Round
from annotation.people.invitations import Terms, link_of, revoke_invitation
from annotation.rounds.opening import RoundSettings, open_round
from annotation.rounds.telling import tell_of_rounds
from fairjudge_site.logs import without_secrets
from judging.core import leases, waking
from judging.core.caching import report_cache
from judging.core.errors import UserError
from judging.projects import mail
from judging.projects.deliveries import ATTEMPTS
from judging.projects.models import (
    AuditEvent,
    Mail,
    MailServer,
    MailSettings,
    Membership,
    PasswordLink,
    Project,
    Role,
)  # fmt: skip
from tests.factories import make_examples, make_member, make_project
from tests.loopback.post_office import PostOffice, certificate
from tests.together import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
commits = pytest.mark.django_db(transaction=True)
LINK = "https://judge.example.org"


@pytest.fixture(autouse=True)
def sent(monkeypatch, settings):
    """The messages to workers, which nobody reads here."""
    settings.FAIRJUDGE_URL = LINK
    found = []
    monkeypatch.setattr(waking, "wake", lambda task, *values: found.append((task, *values)) or True)
    return found


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still and is set by hand."""

    class Clock:
        now = timezone.now()

        def pass_by(self, **time):
            self.now += timedelta(**time)

    made = Clock()
    monkeypatch.setattr(timezone, "now", lambda: made.now)
    return made


@pytest.fixture
def invited(post_office, project, owner):
    """An invitation on its way to Ada."""
    return invite_by_mail(project, owner, Terms(note="the class of May"), "ada@example.org")


def send():
    return mail.send_due(1, letters.write)


def only():
    return Mail.objects.get()


def with_address(user, address=""):
    user.email = address or f"{user.username}@example.org"
    user.save()
    return user


def links(mailed):
    return [word for word in mailed.part("plain").split() if word.startswith("http")]


@commits
def test_an_invitation_arrives_and_its_address_is_forgotten(invited, post_office, sent):
    assert sent == [(waking.SEND_MAIL, 1)]
    assert only().to == "ada@example.org"
    assert send() == 1
    (mailed,) = post_office.mails
    assert mailed.sender == "fairjudge@judge.example.org"
    assert mailed.to == ["ada@example.org"]
    assert mailed.message["To"] == "ada@example.org"
    assert mailed.message["From"] == "FairJudge <fairjudge@judge.example.org>"
    assert mailed.message["Subject"] == "You are invited to vicuna"
    assert mailed.message["Auto-Submitted"] == "auto-generated"
    assert mailed.message["Message-ID"] == f"<{only().message}@judge.example.org>"
    assert "olga invites you" in mailed.part("plain")
    assert "the class of May" not in mailed.raw.decode()
    (link,) = links(mailed)
    assert link.startswith(f"{LINK}/join/")
    assert f'href="{link}"' in mailed.part("html")
    assert (only().state, only().to, only().attempts, only().status) == ("delivered", "", 1, 250)
    assert "ada" not in str(list(Mail.objects.values())) + str(list(AuditEvent.objects.values()))
    assert send() == 0


def test_without_a_server_nothing_is_queued_and_pages_show_links(project, owner, client, settings):
    assert not mail.mail_is_configured()
    assert mail.post(Mail.Kind.TEST, "test", to="ada@example.org") is None
    look_who_waits()
    assert not Mail.objects.exists()
    client.force_login(owner)
    assert "Send it by mail" not in client.get(reverse("people", args=[project.slug])).text
    assert reverse("own_mail") not in client.get(reverse("password_change")).text
    assert "sends no mail" in client.get(reverse("own_mail")).text
    assert mail.send_due(1, letters.write) == 0


@commits
def test_a_change_that_is_rolled_back_mails_nobody(post_office, project, owner, sent):
    with suppress(ValueError), transaction.atomic():
        invite_by_mail(project, owner, Terms(), "ada@example.org")
        raise ValueError
    assert not Mail.objects.exists()
    assert not sent


def test_an_event_has_one_mail(post_office, owner):
    with_address(owner)
    for _ in range(2):
        mail.post(Mail.Kind.TEST, "one", user=owner)
    assert Mail.objects.count() == 1


@pytest.mark.parametrize(
    ("step", "answer", "state", "status"),
    [
        ("RCPT", "550 <ada@example.org> no such user", "dead", 550),
        ("RCPT", "450 try later", "waiting", 450),
        ("DATA", "554 looks like spam", "dead", 554),
        ("DATA", "451 busy", "waiting", 451),
        ("MAIL", "451 busy", "waiting", 451),
        # The operator can correct it, so the mail isn't lost.
        ("MAIL", "550 this sender may not", "waiting", 550),
    ],
)
def test_what_the_server_refuses_is_given_up_or_tried_again(
    invited, post_office, clock, step, answer, state, status
):
    post_office.answers[step] = [answer]
    assert send() == 1
    assert (only().state, only().status) == (state, status)
    assert "ada@example.org" not in only().said
    assert not post_office.mails
    if state == "waiting":
        assert only().next_at == only().began_at + timedelta(seconds=5)
        assert send() == 0
        clock.pass_by(seconds=5)
        assert send() == 1
        assert (only().state, only().attempts) == ("delivered", 2)


def test_after_a_day_it_is_given_up_and_the_operator_sends_it_again(invited, post_office, clock):
    post_office.answers["RCPT"] = ["450 later"] * 100
    attempts = []
    while only().state == "waiting":
        clock.now = only().next_at
        attempts.append((clock.now - only().began_at).total_seconds())
        assert send() == 1
    assert tuple(attempts) == ATTEMPTS
    post_office.answers.clear()
    assert send() == 0
    message = only().message
    call_command("mail", "--again", "all")
    assert send() == 1
    assert only().state == "delivered"
    assert post_office.mails[0].message["Message-ID"] == f"<{message}@judge.example.org>"
    with pytest.raises(CommandError, match="is sent"):
        call_command("mail", "--again", str(only().pk))


def test_an_address_without_a_login_is_forgotten_a_week_after_it_was_given_up(
    invited, post_office, clock
):
    post_office.answers["RCPT"] = ["550 no"]
    send()
    clock.pass_by(days=6)
    mail.forget_addresses()
    assert only().to == "ada@example.org"
    clock.pass_by(days=2)
    mail.forget_addresses()
    assert only().to == ""
    with pytest.raises(CommandError, match="no longer known"):
        call_command("mail", "--again", str(only().pk))
    clock.pass_by(days=30)
    mail.COURIER.forget_old()
    assert not Mail.objects.exists()


def test_a_server_that_is_away_is_asked_seldom(invited, post_office, clock, settings):
    right, settings.EMAIL_PORT = settings.EMAIL_PORT, 9
    assert send() == 1
    assert (only().state, only().status) == ("waiting", None)
    assert "Refused" in only().said
    clock.pass_by(seconds=14)
    assert send() == 0
    settings.EMAIL_PORT = right
    clock.pass_by(seconds=1)
    assert send() == 1
    assert only().state == "delivered"
    assert MailServer.objects.get().failures == 0


@pytest.mark.filterwarnings("ignore:Requiring AUTH")
def test_a_wrong_password_is_no_fault_of_the_mail(project, owner, settings, clock):
    with PostOffice(login=("me@example.org", "p/#:")) as office:
        for name, value in office.settings().items():
            setattr(settings, name, value)
        settings.EMAIL_HOST_PASSWORD = "wrong"
        invite_by_mail(project, owner, Terms(), "ada@example.org")
        assert send() == 1
        assert only().state == "waiting"
        assert "wrong" not in only().said
        settings.EMAIL_HOST_PASSWORD = "p/#:"
        clock.pass_by(minutes=5)
        assert send() == 1
        assert office.mails[0].login == "me@example.org"


@pytest.mark.filterwarnings("ignore:Requiring AUTH")
@pytest.mark.parametrize("starttls", [True, False])
def test_mail_is_encrypted_and_a_strange_certificate_is_refused(
    project, owner, settings, tmp_path, clock, monkeypatch, starttls
):
    tls = certificate(tmp_path)
    with PostOffice(tls=tls, starttls=starttls, login=("me", "secret")) as office:
        for name, value in office.settings().items():
            setattr(settings, name, value)
        invite_by_mail(project, owner, Terms(), "ada@example.org")
        assert send() == 1
        assert only().state == "waiting"
        assert "certificate" in only().said.lower()
        assert not office.mails
        monkeypatch.setenv("SSL_CERT_FILE", str(tls))
        clock.pass_by(minutes=5)
        assert send() == 1
        assert office.mails[0].encrypted


def test_a_server_that_falls_silent_before_the_text_is_tried_again(
    invited, post_office, settings, clock
):
    settings.EMAIL_TIMEOUT = 0.3
    post_office.answers["RCPT"] = [""]
    assert send() == 1
    assert only().state == "waiting"


def test_what_may_have_arrived_is_never_sent_again_by_itself(invited, post_office, settings, clock):
    settings.EMAIL_TIMEOUT = 0.3
    post_office.hold = lambda: time.sleep(0.8)
    assert send() == 1
    assert only().state == "unsure"
    assert only().to
    clock.pass_by(days=1)
    mail.COURIER.wake()
    assert send() == 0
    assert len(post_office.mails) == 1
    post_office.hold = lambda: None
    settings.EMAIL_TIMEOUT = 30
    call_command("mail", "--again", str(only().pk))
    assert send() == 1
    first, second = post_office.mails
    assert first.message["Message-ID"] == second.message["Message-ID"]


KILLED = """
import os, signal, sys
import django
django.setup()
from django.conf import settings
from django.db import connections
import smtplib
connections["default"].settings_dict["NAME"] = sys.argv[1]
settings.MAIL = {"EMAIL_HOST": "127.0.0.1"}
settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", int(sys.argv[2])
from annotation import letters
from judging.projects import mail
def killed(self, *of, step=getattr(smtplib.SMTP, sys.argv[3])):
    if sys.argv[4] == "after":
        step(self, *of)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(smtplib.SMTP, sys.argv[3], killed)
mail.send_due(1, letters.write)
"""


@pytest.mark.system
@commits
@pytest.mark.parametrize(
    ("step", "when", "arrived", "state"),
    [("rcpt", "after", 0, "delivered"), ("data", "after", 1, "unsure")],
)
def test_a_killed_sender_causes_no_second_mail(
    invited, post_office, sent, step, when, arrived, state
):
    name = str(connection.settings_dict["NAME"])
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, name, str(post_office.port), step, when],
        env=environment, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    assert len(post_office.mails) == arrived
    assert leases.is_dead(MailServer.objects.get().holder)
    sent.clear()
    report_cache.delete("mail:1")
    mail.COURIER.wake()
    assert sent == [(waking.SEND_MAIL, 1)]
    send()
    assert only().state == state
    assert len(post_office.mails) == 1


@commits
def test_several_senders_at_once_send_each_mail_once(post_office, project, owner):
    for number in range(8):
        invite_by_mail(project, owner, Terms(), f"ada{number}@example.org")
    counts = at_once(lambda _: send(), 4)
    while send():
        pass
    assert not [count for count in counts if isinstance(count, Exception)]
    to = sorted(address for mailed in post_office.mails for address in mailed.to)
    assert to == sorted(f"ada{number}@example.org" for number in range(8))


def test_a_sender_that_was_taken_over_hands_nothing_over(invited, post_office, monkeypatch):
    import smtplib

    step = smtplib.SMTP.rcpt

    def taken(self, *of):
        MailServer.objects.update(holder="another")
        return step(self, *of)

    monkeypatch.setattr(smtplib.SMTP, "rcpt", taken)
    send()
    assert (only().state, only().attempts) == ("waiting", 0)
    assert not post_office.mails


def test_an_invitation_that_no_longer_works_is_not_sent(invited, post_office, owner):
    revoke_invitation(invited, owner)
    assert send() == 1
    assert (only().state, only().to) == ("dropped", "")
    assert not post_office.mails


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("vicuna\r\nBcc: eve@example.org", "vicuna Bcc: eve@example.org"),
        ("a\u202etxt.exe", "a txt.exe"),
        ("<b>bold</b>", "<b>bold</b>"),
        ("مشروع", "\u2068مشروع\u2069"),
        ("x" * 200, f"{'x' * 78} …"),
    ],
)
def test_a_hostile_name_adds_no_header_and_no_tag(post_office, project, owner, name, shown):
    project.name = name
    project.save()
    invite_by_mail(project, owner, Terms(), "ada@example.org")
    assert send() == 1
    (mailed,) = post_office.mails
    assert named(name) == shown
    assert mailed.to == ["ada@example.org"]
    assert "Bcc" not in mailed.message
    assert mailed.message["Subject"].strip() == f"You are invited to {shown}"
    assert shown in mailed.part("plain")
    assert "<b>" not in mailed.part("html")
    assert "\u202e" not in mailed.part("plain") + mailed.part("html")


def test_in_arabic_the_day_comes_first_and_an_address_keeps_its_order(post_office, project, owner):
    project.language = "ar"
    project.save()
    invitation = invite_by_mail(project, owner, Terms(), "ada@example.org")
    Invitation.objects.update(expires_at=datetime(2127, 12, 15, 9, 30, tzinfo=UTC))
    assert send() == 1
    (mailed,) = post_office.mails
    assert "15 ديسمبر، 2127, 09:30 UTC" in mailed.part("plain")
    link = link_of(invitation, "ada@example.org")
    assert f'<bdi dir="ltr">{link}</bdi>' in mailed.part("html")
    assert mailed.part("html").count(link) == 2


@pytest.mark.parametrize("address", ["", "ada", "a@b.org\r\nBcc: c@d.org", "a@b.org, c@d.org"])
def test_what_is_no_address_is_refused(post_office, project, owner, address):
    with pytest.raises(UserError, match="no mail address"):
        invite_by_mail(project, owner, Terms(), address)
    assert not Invitation.objects.exists()


def test_nobody_sends_a_flood_of_invitations(post_office, project, owner, monkeypatch):
    monkeypatch.setattr(letters, "MOST_INVITATIONS_A_DAY", 1)
    invite_by_mail(project, owner, Terms(), "ada@example.org")
    with pytest.raises(UserError, match="within a day"):
        invite_by_mail(project, owner, Terms(), "eve@example.org")
    assert Invitation.objects.count() == 1


def test_an_owner_sends_a_link_from_the_page(post_office, project, as_owner):
    page = reverse("people", args=[project.slug])
    form = {"role": "annotator", "uses": 1, "days": 14, "note": "", "mail_to": "ada@example.org"}
    shown = as_owner.post(page, form, follow=True).text
    assert "a mail with it is on its way" in shown
    assert "mail waiting" in shown
    send()
    assert "mail sent" in as_owner.get(page).text
    assert as_owner.post(page, form | {"mail_to": "ada"}).status_code == 422


def test_who_joins_by_a_mailed_link_may_keep_its_address(invited, post_office, client):
    send()
    (link,) = links(post_office.mails[0])
    path = link.removeprefix(LINK)
    assert "ada@example.org" in client.get(path).text
    person = {"username": "ada", "password1": "correct horse", "password2": "correct horse"}
    client.post(path, person | {"own_address": "on"})
    assert User.objects.get(username="ada").email == "ada@example.org"


def test_who_joins_without_saying_so_keeps_no_address(invited, post_office, client):
    send()
    path = links(post_office.mails[0])[0].removeprefix(LINK)
    client.post(
        path, {"username": "ada", "password1": "correct horse", "password2": "correct horse"}
    )
    assert User.objects.get(username="ada").email == ""


def test_a_password_link_is_not_kept_in_the_mail(post_office, owner):
    with_address(owner)
    link = PasswordLink.objects.create(user=owner)
    mail_password_link(link)
    assert send() == 1
    (url,) = links(post_office.mails[0])
    assert url.startswith(f"{LINK}/password/")
    assert url not in str(list(Mail.objects.values()))
    again = PasswordLink.objects.create(user=owner)
    mail_password_link(again)
    again.delete()
    assert send() == 1
    assert Mail.objects.order_by("pk").last().state == "dropped"


# Addresses


@pytest.fixture
def ana(annotator, client):
    annotator.set_password("correct horse")
    annotator.save()
    client.force_login(annotator)
    return annotator


def test_an_address_counts_once_its_owner_confirms_it(post_office, ana, client):
    page = reverse("own_mail")
    wrong = client.post(page, {"address": "ana@example.org", "old_password": "no"})
    assert wrong.status_code == 422
    shown = client.post(page, {"address": "ana@example.org", "old_password": "correct horse"})
    assert "A link is on its way" in shown.text
    send()
    ana.refresh_from_db()
    assert ana.email == ""
    path = links(post_office.mails[0])[0].removeprefix(LINK)
    assert "Is this your address?" in client.get(path).text
    ana.refresh_from_db()
    assert ana.email == ""
    client.post(path)
    ana.refresh_from_db()
    assert ana.email == "ana@example.org"
    client.post(page, {"remove": ""})
    ana.refresh_from_db()
    assert ana.email == ""


def test_a_link_confirms_for_its_person_for_three_days(post_office, ana, other_annotator, client):
    path = mail.confirming_link(ana, "ana@example.org").removeprefix(LINK)
    client.force_login(other_annotator)
    assert client.post(path).status_code == 410
    client.force_login(ana)
    assert client.post(path[:-3] + "x/").status_code == 410
    with_address(ana, "new@example.org")
    assert client.post(path).status_code == 410
    ana.refresh_from_db()
    assert ana.email == "new@example.org"


# What waits


@pytest.fixture
def round_(project, owner, post_office):
    make_examples(project, 3)
    return open_round(project, owner, None, RoundSettings(votes=1, everything=True))


def waiting_mails():
    return Mail.objects.filter(kind="waiting").order_by("pk")


def test_pairs_that_wait_are_told_once_a_day_at_most(round_, ana, owner, post_office, clock):
    with_address(ana)
    for _ in range(3):
        look_who_waits()
    assert [each.user for each in waiting_mails()] == [ana]
    assert send() == 1
    (mailed,) = post_office.mails
    assert mailed.to == ["ana@example.org"]
    assert "vicuna · round 1: 3 pairs" in mailed.part("plain")
    assert links(mailed)[0].startswith(f"{LINK}/annotate/r/")
    clock.pass_by(days=2)
    look_who_waits()
    assert waiting_mails().count() == 1


def test_what_waits_is_told_in_the_language_of_all_their_projects(
    round_, project, ana, post_office
):
    with_address(ana)
    Project.objects.filter(pk=project.pk).update(language="de")
    look_who_waits()
    assert letters.write(only()).subject == "Auf FairJudge warten Paare auf Sie"
    make_membership = partial(Membership.objects.create, user=ana, role=Role.ANNOTATOR)
    make_membership(project=make_project("French", language="fr"))
    assert letters.write(only()).subject == "Pairs wait for you on FairJudge"


def test_another_round_of_another_project_waits_for_the_next_day(
    round_, ana, owner, post_office, clock
):
    with_address(ana)
    look_who_waits()
    other = make_project("other")
    Membership.objects.create(project=other, user=ana, role=Role.ANNOTATOR)
    make_examples(other, 1)
    open_round(other, None, None, RoundSettings(votes=1, everything=True))
    clock.pass_by(hours=23)
    look_who_waits()
    assert waiting_mails().count() == 1
    clock.pass_by(hours=2)
    look_who_waits()
    assert waiting_mails().count() == 2


def test_nobody_is_told_of_what_hands_out_nothing(round_, ana, post_office, clock):
    with_address(ana)
    Round.objects.update(state=Round.State.PAUSED)
    look_who_waits()
    assert not Mail.objects.exists()
    Round.objects.update(state=Round.State.OPEN)
    look_who_waits()
    Item.objects.update(state=Item.State.COMPLETE)
    assert send() == 1
    assert only().state == "dropped"
    assert not post_office.mails


def test_who_has_no_address_or_turned_it_off_is_not_looked_at(
    round_, ana, owner, post_office, django_assert_max_num_queries
):
    with django_assert_max_num_queries(2):
        look_who_waits()
    with_address(ana)
    mail.choose(ana, waiting=False)
    look_who_waits()
    assert not Mail.objects.exists()


def test_two_workers_that_look_at_once_tell_once(round_, ana, post_office, monkeypatch):
    with_address(ana)
    work = letters._work_of
    monkeypatch.setattr(letters, "_work_of", lambda user: again() or work(user))

    def again():
        monkeypatch.setattr(letters, "_work_of", work)
        look_who_waits()

    look_who_waits()
    assert waiting_mails().count() == 1


def test_one_click_turns_it_off_without_a_login(round_, ana, post_office, client, clock):
    with_address(ana)
    look_who_waits()
    send()
    message = post_office.mails[0].message
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    url = message["List-Unsubscribe"].strip(" <>")
    assert url.startswith(f"{LINK}/mail/off/")
    assert url in post_office.mails[0].part("plain")
    client.logout()
    strict = type(client)(enforce_csrf_checks=True)
    assert "Turn these mails off?" in strict.get(url.removeprefix(LINK)).text
    assert mail.settings_of(ana).waiting
    done = strict.post(url.removeprefix(LINK), {"List-Unsubscribe": "One-Click"})
    assert "no more of these mails" in done.text
    assert not mail.settings_of(ana).waiting
    assert mail.settings_of(ana).complete
    clock.pass_by(days=3)
    MailSettings.objects.update(waiting_told=[])
    look_who_waits()
    assert waiting_mails().count() == 1
    assert strict.post(url.removeprefix(LINK)[:-4] + "x/").status_code == 410


def test_an_unsubscribe_link_ends_with_its_address(ana, post_office, client):
    path = mail.off_link(with_address(ana), "waiting").removeprefix(LINK)
    with_address(ana, "new@example.org")
    assert client.post(path).status_code == 410
    assert mail.settings_of(ana).waiting


def test_what_needs_a_decision_is_told_to_those_who_may_decide(
    round_, project, owner, researcher, ana, post_office, clock
):
    reviewer = with_address(make_member(project, Role.REVIEWER, "rita"))
    with_address(make_member(project, Role.OBSERVER, "obi"))
    with_address(ana)
    look_who_waits()
    Mail.objects.all().delete()
    Item.objects.filter(pk=Item.objects.first().pk).update(state=Item.State.ADJUDICATE)
    look_who_waits()
    decisions = Mail.objects.filter(kind="decision")
    assert [each.user for each in decisions] == [reviewer]
    assert send() == 1
    assert "vicuna, round 1: 1 item" in post_office.mails[0].part("plain")
    clock.pass_by(days=2)
    look_who_waits()
    assert decisions.all().count() == 1
    Item.objects.update(state=Item.State.COMPLETE)
    look_who_waits()
    Item.objects.update(state=Item.State.ADJUDICATE)
    look_who_waits()
    assert decisions.all().count() == 2


def test_the_end_of_a_round_is_told_once_to_those_who_run_it(
    round_, project, owner, researcher, ana, post_office
):
    for user in (owner, researcher, ana):
        with_address(user)
    mail.choose(researcher, complete=False)
    Item.objects.update(state=Item.State.COMPLETE)
    for _ in range(2):
        tell_of_rounds()
    assert [each.user for each in Mail.objects.filter(kind="complete")] == [owner]
    assert send() == 1
    (mailed,) = post_office.mails
    assert mailed.message["Subject"] == "vicuna, round 1 is complete"
    assert links(mailed)[0] == f"{LINK}/p/vicuna/rounds/1"


def test_who_left_the_project_is_told_nothing(round_, project, owner, ana, post_office):
    with_address(owner)
    Item.objects.update(state=Item.State.COMPLETE)
    tell_of_rounds()
    Membership.objects.filter(user=owner).delete()
    assert send() == 1
    assert only().state == "dropped"


# The operator


def test_the_operator_tries_whether_mail_arrives(post_office, capsys):
    call_command("mail", "--test", "ada@example.org")
    assert post_office.mails[0].message["Subject"] == "FairJudge can send mail"
    call_command("mail")
    said = capsys.readouterr().out
    assert "sent" in said
    assert "ada@example.org" not in said
    post_office.answers["RCPT"] = ["550 no such user"]
    with pytest.raises(CommandError, match="no such user"):
        call_command("mail", "--test", "ada@example.org")


def test_the_console_and_a_folder_serve_as_well(project, owner, settings, tmp_path, capsys):
    settings.MAIL = {"on": True}
    settings.EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    settings.EMAIL_FILE_PATH = str(tmp_path)
    invite_by_mail(project, owner, Terms(), "ada@example.org")
    assert send() == 1
    (file,) = tmp_path.iterdir()
    assert "Subject: You are invited to vicuna" in file.read_text()
    settings.EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
    invite_by_mail(project, owner, Terms(), "ada@example.org")
    assert send() == 1
    assert "You are invited" in capsys.readouterr().out


def test_a_letter_that_can_not_be_written_does_not_stop_the_others(
    post_office, project, owner, monkeypatch
):
    invite_by_mail(project, owner, Terms(), "ada@example.org")
    invite_by_mail(project, owner, Terms(), "eve@example.org")
    write, first = letters.write, Mail.objects.order_by("pk").first().pk
    monkeypatch.setattr(letters, "write", lambda one: 1 / 0 if one.pk == first else write(one))
    assert mail.send_due(1, letters.write) == 2
    assert [each.to for each in post_office.mails] == [["eve@example.org"]]
    assert Mail.objects.get(pk=first).state == "waiting"


def test_the_log_holds_no_token_of_a_mail(ana):
    shown = without_secrets(mail.off_link(with_address(ana), "waiting"))
    assert shown == f"{LINK}/mail/off/***/"
    assert without_secrets(mail.confirming_link(ana, "a@b.org")).endswith("/mail/confirm/***/")
