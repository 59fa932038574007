"""What each mail says, and who is to be told that pairs or decisions wait for them.

A mail is written when it is sent, from the rows that it is about. If nothing of it is true any
more, it isn't sent. Links begin with the site's own address. No mail holds a text of the data, a
name of a model, or what a judge said, so that reading it leaves people blind.
"""

import unicodedata
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser, User
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.translation import get_language_bidi, ngettext
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from annotation.models import Invitation, Item, Round
from annotation.people.invitations import Terms, invite, link_of, usable_invitations
from annotation.screen.progress import OpenRound, open_work
from judging.core import languages
from judging.core.errors import UserError
from judging.core.formatting import count
from judging.core.text import UNPRINTABLE
from judging.projects.access import language_of_projects, record_event, who_label, who_may
from judging.projects.accounts import link_again
from judging.projects.mail import (
    Kind,
    Letter,
    absolute,
    confirming_link,
    mail_is_configured,
    off_link,
    post,
    settings_of,
    usable_address,
    who_want,
)
from judging.projects.models import Mail, MailSettings, PasswordLink, Preferences, Project, Role

# People get one mail of a kind in so long, over all their projects.
AT_MOST_ONE_IN = timedelta(days=1)
# An owner can't send a flood of mail to people who didn't ask for it.
MOST_INVITATIONS_A_DAY = 200
_LONGEST_NAME, _MOST_LINES = 80, 20
_RTL = ("R", "AL", "AN")
_ISOLATE = "\u2068{}\u2069"


def write(mail: Mail) -> Letter | None:
    """Return a mail as it is to be sent now, or None if it is no longer needed.

    It is in the language that its recipient chose, else the project's, or that of all their
    projects, else English.
    """
    with translation.override(_language(mail)):
        return _written(mail)


def _language(mail: Mail) -> str:
    own = project = None
    if mail.user is not None:
        own = Preferences.objects.filter(user=mail.user).values_list("language", flat=True).first()
    rows = {"invitation": Invitation, "round": Round}
    for name, model in rows.items():
        if key := mail.about.get(name):
            of_key = model._default_manager.filter(pk=key)
            project = of_key.values_list("project__language", flat=True).first()
    if project is None and mail.user is not None:
        project = language_of_projects(mail.user)
    return languages.chosen(own or "", project or "")


def _written(mail: Mail) -> Letter | None:
    if mail.user is not None and not mail.user.is_active:
        return None
    to = mail.to or (mail.user.email if mail.user else "")
    letter = _WRITERS[mail.kind](mail) if to else None
    if letter is None:
        return None
    headers = {}
    if mail.user is not None and mail.kind in _WHY_OFF:
        if not getattr(settings_of(mail.user), mail.kind):
            return None
        url = off_link(mail.user, mail.kind)
        # RFC 8058: the mail program sends one POST, without asking anything.
        headers = {
            "List-Unsubscribe": f"<{url}>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        }
        letter |= {"off_url": url, "why": _WHY_OFF[mail.kind]}
    letter |= {"lang": languages.now(), "direction": "rtl" if get_language_bidi() else "ltr"}
    # An address keeps its order in a letter that runs from right to left.
    letter["shown_url"] = format_html('<bdi dir="ltr">{}</bdi>', letter.get("url", ""))
    text = render_to_string("mail/letter.txt", letter)
    return Letter(
        to, letter["subject"], text, render_to_string("mail/letter.html", letter), headers
    )


def named(name: str) -> str:
    """Return a name that people chose, on one line, not too long, that turns nothing around."""
    text = " ".join(UNPRINTABLE.sub(" ", name).split())
    if len(text) > _LONGEST_NAME:
        text = f"{text[: _LONGEST_NAME - 2].rstrip()} …"
    # In a letter that runs from right to left, every name may be turned around.
    turns = get_language_bidi() or any(unicodedata.bidirectional(sign) in _RTL for sign in text)
    return _ISOLATE.format(text) if turns else text


# Invitations


def invite_by_mail(
    project: Project, by: AbstractUser | None, terms: Terms, address: str
) -> Invitation:
    """Make an invitation and queue a mail with its link. The project doesn't keep the address."""
    address = usable_address(address)
    if not mail_is_configured():
        raise UserError("This site sends no mail. Copy the link instead. Nothing was made.")
    with transaction.atomic():
        since = timezone.now() - timedelta(days=1)
        mails = Mail.objects.filter(kind=Kind.INVITATION, at__gt=since)
        by_them = mails.filter(about__by=by.pk if by else None).count()
        if by_them >= MOST_INVITATIONS_A_DAY:
            raise UserError(
                f"You have sent {MOST_INVITATIONS_A_DAY} invitations within a day. Copy the link "
                "instead, or wait. Nothing was made."
            )
        invitation = invite(project, by, terms)
        about = {"invitation": invitation.pk, "by": by.pk if by else None}
        post(Kind.INVITATION, invitation_event(invitation), to=address, **about)
        record_event(project, by, "invitation sent by mail", terms.note)
    return invitation


def invitation_event(invitation: Invitation) -> str:
    """Return what names the mail of an invitation."""
    return f"{Kind.INVITATION}:{invitation.pk}"


def _invitation(mail: Mail) -> dict[str, Any] | None:
    key = mail.about["invitation"]
    invitation = Invitation.objects.select_related("project", "created_by").filter(pk=key).first()
    if invitation is None or invitation.project.deleted_at is not None:
        return None
    if not usable_invitations(invitation.project).filter(pk=invitation.pk).exists():
        return None
    project = named(invitation.project.name)
    who = (
        named(invitation.created_by.get_username()) if invitation.created_by else _("The operator")
    )
    return {
        "subject": _("You are invited to %(project)s") % {"project": project},
        "paragraphs": [
            _("%(who)s invites you to the project %(project)s on FairJudge, as %(role)s.")
            % {"who": who, "project": project, "role": _ROLES[invitation.role]},
            _("The link works until %(time)s.") % {"time": _day(invitation.expires_at)},
        ],
        "url": link_of(invitation, mail.to),
        "label": _("Join the project"),
        "why": _(
            "If you don't know what this is about, you can ignore it. You get no further mail, "
            "and FairJudge doesn't keep your address unless you join."
        ),
    }


_ROLES = {
    Role.OWNER: _lazy("an owner"),
    Role.RESEARCHER: _lazy("a researcher"),
    Role.REVIEWER: _lazy("a reviewer"),
    Role.OBSERVER: _lazy("an observer"),
    Role.ANNOTATOR: _lazy(
        "an annotator: you compare two answers at a time and say which is better"
    ),
}


def _day(at: Any) -> str:
    # Django knows no way to write a day with its time in Arabic.
    form = "d F Y" if languages.now() == languages.ENGLISH else "DATE_FORMAT"
    return f"{date_format(at, form)}, {at:%H:%M} UTC"


# Logins


def mail_password_link(link: PasswordLink) -> None:
    """Queue a mail with a link that sets a new password, in the transaction that makes the link.

    The user needs an address. The mail holds the link only when it is sent.
    """
    post(Kind.PASSWORD, f"{Kind.PASSWORD}:{link.pk}", user=link.user, link=link.pk)


def _password(mail: Mail) -> dict[str, Any] | None:
    try:
        url = link_again(mail.about["link"])
    except UserError:
        return None
    name = named(mail.user.get_username()) if mail.user else ""
    return {
        "subject": _("Your link for a new FairJudge password"),
        "paragraphs": [
            _(
                "With this link you set a new password for the login %(name)s at FairJudge. It "
                "works once, and for three days at most."
            )
            % {"name": name}
        ],
        "url": url,
        "label": _("Set a new password"),
        "why": _("If you didn't ask for it, ignore this mail. Your password stays as it is."),
    }


def _address(mail: Mail) -> dict[str, Any] | None:
    if mail.user is None or not mail.to:
        return None
    return {
        "subject": _("Confirm your address for FairJudge"),
        "paragraphs": [
            _(
                "Somebody who is logged in as %(name)s wants FairJudge to use this address. "
                "Confirm that it is yours. The link works for three days."
            )
            % {"name": named(mail.user.get_username())}
        ],
        "url": confirming_link(mail.user, mail.to),
        "label": _("Confirm this address"),
        "why": _("If it wasn't you, ignore this mail. FairJudge doesn't keep your address."),
    }


def _test(mail: Mail) -> dict[str, Any]:
    return {
        "subject": _("FairJudge can send mail"),
        "paragraphs": [_("The operator sent this to try whether mail arrives.")],
        "url": absolute("/"),
        "label": _("Open FairJudge"),
        "why": _("You get no further mail by this."),
    }


# What waits


def look_who_waits() -> None:
    """Queue mail for people who have new rounds to label or to decide in, at most one a day.

    A round is new again once nothing of it waited for the person.
    """
    open_rounds = Round.objects.filter(state=Round.State.OPEN).exclude(kind=Round.Kind.IMPORT)
    asked = who_label().filter(project__in=open_rounds.values("project"))
    undecided = Item.objects.filter(state=Item.State.ADJUDICATE)
    deciding = who_may(Role.REVIEWER).filter(project__in=undecided.values("round__project"))
    for kind, members, find in (
        (Kind.WAITING, asked, lambda user: {work.key for work in _work_of(user)}),
        (Kind.DECISION, deciding, lambda user: {each.pk for each in _undecided_for(user)}),
    ):
        lately = {f"{kind}_at__gt": timezone.now() - AT_MOST_ONE_IN}
        # Also who was told of what may be over by now, so that it can be new again.
        told = MailSettings.objects.exclude(**{f"{kind}_told": []}).values("user")
        users = User.objects.filter(Q(pk__in=members.values("user")) | Q(pk__in=told))
        told_today = MailSettings.objects.filter(**lately).values("user")
        for user in who_want(kind, users).exclude(pk__in=told_today).order_by("pk"):
            _tell_once(kind, user, find(user))


def know_what_waits(user: User) -> None:
    """Count what waits now as told: the person is at a browser and sees it there."""
    MailSettings.objects.get_or_create(user=user)
    MailSettings.objects.filter(user=user).update(
        waiting_told=sorted(work.key for work in _work_of(user)),
        decision_told=sorted(each.pk for each in _undecided_for(user)),
    )


def _tell_once(kind: str, user: User, now: set[int]) -> None:
    mine, _ = MailSettings.objects.get_or_create(user=user)
    told, rows = set(getattr(mine, f"{kind}_told")), MailSettings.objects.filter(user=user)
    at, since = timezone.now(), timezone.now() - AT_MOST_ONE_IN
    if now <= told:
        if now != told:
            rows.update(**{f"{kind}_told": sorted(now)})
        return
    with transaction.atomic():
        # If two workers look at once, only one of them sends the mail.
        free = rows.filter(Q(**{f"{kind}_at": None}) | Q(**{f"{kind}_at__lte": since}))
        if free.update(**{f"{kind}_at": at, f"{kind}_told": sorted(now)}):
            post(kind, f"{kind}:{user.pk}:{at.isoformat()}", user=user)


def _work_of(user: AbstractUser) -> list[OpenRound]:
    """Return the rounds that hand out something to this person now."""
    off = ("paused", "finished", "left", "held", "waits")
    return [work for work in open_work(user) if not any(getattr(work, name) for name in off)]


def _undecided_for(user: AbstractUser) -> QuerySet[Round, Any]:
    """Return the rounds with items that this person may decide, with their number."""
    mine = who_may(Role.REVIEWER).filter(user=user)
    undecided = Q(items__state=Item.State.ADJUDICATE)
    rounds = Round.objects.filter(project__in=mine.values("project"), project__deleted_at=None)
    waiting = Item.objects.filter(round=OuterRef("pk"), state=Item.State.ADJUDICATE)
    counted = rounds.filter(Exists(waiting)).annotate(n=Count("items", filter=undecided))
    return counted.select_related("project").order_by("pk")


def _waiting(mail: Mail) -> dict[str, Any] | None:
    work = _work_of(mail.user) if mail.user else []
    if not work:
        return None
    lines = [
        (
            ngettext(
                "%(where)s: %(n)s pair", "%(where)s: %(n)s pairs", left := each.total - each.done
            )
            % {"where": named(each.where), "n": count(left)},
            absolute(each.url),
        )
        for each in work[:_MOST_LINES]
    ]
    return {
        "subject": _("Pairs wait for you on FairJudge"),
        "paragraphs": [_("You can label in these rounds:")],
        "lines": _shortened(lines, len(work)),
    }


def _decision(mail: Mail) -> dict[str, Any] | None:
    rounds = list(_undecided_for(mail.user)) if mail.user else []
    if not rounds:
        return None
    lines = [
        (
            ngettext("%(where)s: %(n)s item", "%(where)s: %(n)s items", each.n)
            % {"where": _round(each), "n": count(each.n)},
            absolute(reverse("adjudication", args=[each.project.slug, each.number])),
        )
        for each in rounds[:_MOST_LINES]
    ]
    return {
        "subject": _("Items need a decision on FairJudge"),
        "paragraphs": [_("Votes on these items gave no majority. You can decide them:")],
        "lines": _shortened(lines, len(rounds)),
    }


def _complete(mail: Mail) -> dict[str, Any] | None:
    round_ = Round.objects.select_related("project").filter(pk=mail.about["round"]).first()
    if round_ is None or round_.project.deleted_at is not None:
        return None
    if not who_may(Role.RESEARCHER).filter(project=round_.project, user=mail.user).exists():
        return None
    slug = round_.project.slug
    return {
        "subject": _("%(round)s is complete") % {"round": _round(round_)},
        "paragraphs": [
            _("No item of %(round)s waits for votes or needs a decision.")
            % {"round": _round(round_)}
        ],
        "url": absolute(reverse("round", args=[slug, round_.number])),
        "label": _("See the round"),
    }


def _round(round_: Round) -> str:
    return _("%(project)s, round %(n)s") % {
        "project": named(round_.project.name),
        "n": round_.number,
    }


def _shortened(lines: list[tuple[str, str]], total: int) -> list[tuple[str, str]]:
    more = total - len(lines)
    return [*lines, (_("and %(n)s more") % {"n": more}, "")] if more > 0 else lines


_WHY = _lazy("You get this mail because your FairJudge login has this address, at most once a day.")
_WHY_OFF = {
    Kind.WAITING: _WHY,
    Kind.DECISION: _WHY,
    Kind.COMPLETE: _lazy("You get this mail because you own the project or run its rounds."),
}
_WRITERS: dict[str, Callable[[Mail], dict[str, Any] | None]] = {
    Kind.INVITATION: _invitation, Kind.PASSWORD: _password, Kind.ADDRESS: _address,
    Kind.WAITING: _waiting, Kind.DECISION: _decision, Kind.COMPLETE: _complete, Kind.TEST: _test,
}  # fmt: skip
