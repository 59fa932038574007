"""Single sign-on: going to an identity provider, coming back, who it is, and what groups give them.

A person is known by the provider's lasting id for them. Somebody unknown is refused, unless the
operator expects their mail address or lets new accounts be made. Rights that groups gave end with
the groups, at the next login. What people gave by hand stays.
"""

import hmac
import logging
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import AnonymousUser, User
from django.db import IntegrityError, transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from annotation.people.annotators import annotator_of, leave_project, people_changed
from fairjudge_site.requests import own_address
from judging.core.errors import Failed, UserError
from judging.projects.access import add_member, change_role, record_event
from judging.projects.accounts import create_login, grant_research, look_alike, set_research
from judging.projects.logins import enter, is_proved, proving
from judging.projects.models import Membership, Project, Role, SignOn

logger = logging.getLogger(__name__)

# By whom the trail says that rights were given and taken.
_BY = AnonymousUser()
_BY.username = "single sign-on"
_RESEARCHER, _OPERATOR = "researcher", "operator"
_LONGEST_SUBJECT: int = SignOn._meta.get_field("subject").max_length
# Characters of a user name.
_NOT_IN_A_NAME = re.compile(r"[^\w.@+-]+")
_LONGEST_STEM = 120

Claims = Mapping[str, Any]


def connect_key(request: HttpRequest) -> str:
    """Return what a link to connect must carry, so that no other site can begin it."""
    return salted_hmac("fairjudge.sign_on.connect", request.session.session_key or "").hexdigest()


@login_not_required
@never_cache
@require_safe
def begin(request: HttpRequest, name: str) -> HttpResponse:
    """Lead to the provider: to log in, or to connect it with the login that is open."""
    provider = _provider(name)
    connect = bool(request.user.is_authenticated)
    if connect and not hmac.compare_digest(request.GET.get("key", ""), connect_key(request)):
        return redirect("account")
    # Another way in would stay open to somebody who found a session left open.
    if connect and not is_proved(request):
        return redirect(proving(request.get_full_path()))
    next_ = own_address(request, request.GET.get("next", "")) or "/"
    try:
        return redirect(_oidc().address_of(request, name, next_, connect=connect))
    except Failed as error:
        return _refused(request, provider, error)


@login_not_required
@never_cache
@require_safe
def done(request: HttpRequest, name: str) -> HttpResponse:
    """Log in the person whom the provider names, or say why not."""
    provider = _provider(name)
    try:
        claims, kept = _oidc().claims_of(request, name)
        if kept["connect"]:
            return _connected(request, provider, claims)
        row = person_of(provider, claims)
        take_groups(row, provider, claims)
    except UserError as error:
        return _refused(request, provider, error)
    next_ = kept.get("next", "/")
    return redirect(enter(request, row.user, next_, has_second=_asked_there(provider, claims)))


@require_POST
def remove(request: HttpRequest, number: int) -> HttpResponse:
    """Log in no longer by a provider. A login that would then be closed keeps it."""
    row = get_object_or_404(SignOn, pk=number, user=request.user.pk)
    if not request.user.has_usable_password():
        messages.error(request, _("You have no password, so you could no longer log in."))
    elif not is_proved(request):
        messages.error(request, _("Log in again first, and remove it within 15 minutes."))
    else:
        row.delete()
        record_event(None, request.user, "sign-on removed", request.user.get_username())
        messages.success(request, _("You log in with your password from now on."))
    return redirect("account")


def _oidc() -> Any:
    return import_module("fairjudge_site.oidc")


def _provider(name: str) -> dict[str, Any]:
    if name not in settings.FAIRJUDGE_OIDC:
        raise Http404("No such provider.")
    provider: dict[str, Any] = settings.FAIRJUDGE_OIDC[name]
    return provider


def _refused(request: HttpRequest, provider: dict[str, Any], error: UserError) -> HttpResponse:
    # The reason is in the log too: a person who is refused asks the operator.
    cause = f" ({error.__cause__})" if error.__cause__ else ""
    logger.warning("Sign-on by %s was refused: %s%s", provider["name"], error, cause)
    context = {"refused": str(error), "label": provider["label"]}
    status = 502 if isinstance(error, Failed) else 403
    return render(request, "registration/sign_on_refused.html", context, status=status)


def _asked_there(provider: dict[str, Any], claims: Claims) -> bool:
    """Return True if the provider asked for a second factor: it always does, or it says so."""
    methods = claims.get("amr")
    return provider["second_factor"] or (isinstance(methods, list) and "mfa" in methods)


# Who it is


def person_of(provider: dict[str, Any], claims: Claims) -> SignOn:
    """Return the person's row. Raises UserError if they are not allowed in.

    Who is known has a row. Otherwise the operator may expect their verified mail address, or let
    an account be made.
    """
    email = _verified_mail(provider, claims)
    _refuse_other_domains(provider, email)
    subject = _subject(claims)
    rows = SignOn.objects.select_related("user")
    row = rows.filter(issuer=provider["issuer"], subject=subject).first()
    if row is None and email:
        # The operator expects the person who proves to have this address.
        row = rows.filter(subject="", email=email).first()
    if row is None:
        row = SignOn(user=_new_account(provider, claims, email))
    if not row.user.is_active:
        raise UserError(
            _(
                "The login %(name)s is deactivated. You are not logged in. Ask the operator of "
                "this site."
            )
            % {"name": row.user.get_username()}
        )
    row.issuer, row.subject, row.email = provider["issuer"], subject, email
    row.used_at = timezone.now()
    row.save()
    return row


def _subject(claims: Claims) -> str:
    subject = str(claims["sub"])
    if not 0 < len(subject) <= _LONGEST_SUBJECT or "\0" in subject:
        raise UserError(_("The provider sent no usable id of you. You are not logged in."))
    return subject


def _verified_mail(provider: dict[str, Any], claims: Claims) -> str:
    """Return the mail address in lower case, or "" without one that the provider has verified."""
    email, verified = claims.get("email"), claims.get("email_verified")
    is_verified = verified is True or verified == "true" or provider["trust_mail"]
    usable = isinstance(email, str) and is_verified and 0 < len(email) < 255 and "\0" not in email
    return email.lower() if usable and isinstance(email, str) else ""


def _refuse_other_domains(provider: dict[str, Any], email: str) -> None:
    domains = [domain.lower() for domain in provider["domains"]]
    if not domains or email.rpartition("@")[2] in domains:
        return
    listed = ", ".join(domains)
    raise UserError(
        _(
            "Only verified mail addresses of %(listed)s may log in here with %(provider)s. "
            "You are not logged in. Choose another account there, or ask the operator of "
            "this site."
        )
        % {"listed": listed, "provider": provider["label"]}
    )


def _new_account(provider: dict[str, Any], claims: Claims, email: str) -> User:
    if not settings.FAIRJUDGE_OIDC_NEW_ACCOUNTS:
        raise UserError(
            _(
                "Nobody has an account here for this person at %(provider)s. Nothing was made. "
                "If you have a password here, log in with it and connect the two on your page. "
                "Otherwise ask for an invitation."
            )
            % {"provider": provider["label"]}
        )
    wanted = (claims.get("preferred_username"), email.partition("@")[0], claims.get("name"))
    stems = [_NOT_IN_A_NAME.sub("-", str(text or "")).strip("-") for text in wanted]
    stem = next(filter(None, stems), "person")[:_LONGEST_STEM]
    name, number = stem, 1
    # A name that looks like another one would let one person pass for the other.
    while look_alike(name):
        number += 1
        name = f"{stem}-{number}"
    return create_login(name, email=email)


def _connected(request: HttpRequest, provider: dict[str, Any], claims: Claims) -> HttpResponse:
    """Let the person who is logged in log in by the provider from now on."""
    if not request.user.is_authenticated:
        raise UserError(_("You were logged out meanwhile. Nothing was connected. Log in first."))
    email = _verified_mail(provider, claims)
    _refuse_other_domains(provider, email)
    row = {"issuer": provider["issuer"], "subject": _subject(claims), "email": email}
    try:
        with transaction.atomic():
            SignOn.objects.create(user_id=request.user.pk, **row)
            name = request.user.get_username()
            record_event(None, request.user, "sign-on connected", name, provider=provider["name"])
    except IntegrityError:
        raise UserError(
            _("This person at %(provider)s already has a login here. Nothing was changed.")
            % {"provider": provider["label"]}
        ) from None
    messages.success(
        request,
        _("You can log in with %(provider)s from now on.") % {"provider": provider["label"]},
    )
    return redirect("account")


# What groups give


def take_groups(row: SignOn, provider: dict[str, Any], claims: Claims) -> None:
    """Give the rights of the person's groups, and take those that groups gave and give no more.

    The domain of their verified mail address is a group of theirs, as `@uni.example`.
    """
    domain = "@" + row.email.rpartition("@")[2]
    wanted = _wanted(provider["roles"], {domain, *groups_in(claims, provider["groups"])})
    with transaction.atomic():
        # Locked, so that two logins at once don't both give or take a right.
        row = SignOn.objects.select_for_update(of=("self",)).select_related("user").get(pk=row.pk)
        had = _by_place(row.granted)
        for place in sorted({*had, *wanted}):
            before, now = had.get(place), wanted.get(place)
            if before != now:
                kept = _change(row.user, place, before, now)
                had = {name: right for name, right in had.items() if name != place}
                had |= {place: kept} if kept else {}
        row.granted = sorted(
            right if place.startswith(":") else f"{place}:{right}" for place, right in had.items()
        )
        row.save(update_fields=["granted"])


def groups_in(claims: Claims, name: str) -> set[str]:
    """Return the groups of a claim, whose name may lead into others: `realm_access.roles`."""
    # The whole name comes first, because names of claims may hold dots.
    value: Any = claims.get(name)
    if value is None:
        value = claims
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        return {value}
    return {str(group) for group in value} if isinstance(value, list) else set()


def _wanted(roles: Mapping[str, list[str]], groups: Iterable[str]) -> dict[str, str]:
    """Return the rights by place, of several in one project the largest."""
    rights = {right for group in groups for right in roles.get(group, [])}
    ranks = [str(role) for role in Role]
    in_projects = [right for right in rights if ":" in right]
    # The largest role comes last, and `_by_place` keeps the last one of a project.
    in_projects.sort(key=lambda right: ranks.index(right.partition(":")[2]), reverse=True)
    return _by_place([*(rights - {*in_projects}), *in_projects])


def _by_place(rights: Iterable[str]) -> dict[str, str]:
    """Return rights by the project's slug, those on the whole site by `:` and their name."""
    parts = (right.partition(":") for right in rights)
    return {slug if role else f":{slug}": role or slug for slug, _, role in parts}


def _change(user: User, place: str, before: str | None, now: str | None) -> str | None:
    """Change what groups give in one place. Returns what they have given there from now on."""
    try:
        with transaction.atomic():
            if place == f":{_RESEARCHER}":
                return _change_research(user, now)
            if place == f":{_OPERATOR}":
                return _change_operator(user, now)
            return _change_member(user, place, before, now)
    except UserError as error:
        logger.warning("The groups of %s change nothing in %s: %s", user, place, error)
        # What can't be changed stays, and the person is logged in all the same.
        return before


def _change_research(user: User, now: str | None) -> str | None:
    if now is None:
        set_research(user, False, _BY)
    # Somebody else granted it, so groups don't take it away later.
    elif user.user_permissions.filter(codename="researcher").exists():
        return None
    else:
        grant_research(user)
        record_event(None, _BY, "research granted", user.get_username())
    return now


def _change_operator(user: User, now: str | None) -> str | None:
    others = User.objects.filter(is_superuser=True, is_active=True).exclude(pk=user.pk)
    if now is not None and user.is_superuser:
        return None
    if now is None and not others.exists():
        raise UserError("This is the last operator.")
    user.is_superuser = user.is_staff = now is not None
    user.save(update_fields=["is_superuser", "is_staff"])
    record_event(None, _BY, f"operator {'made' if now else 'withdrawn'}", user.get_username())
    return now


def _change_member(user: User, slug: str, before: str | None, now: str | None) -> str | None:
    project = Project.objects.filter(slug=slug).first()
    if project is None:
        raise UserError("There is no such project.")
    member = Membership.objects.select_related("user", "project")
    membership = member.filter(project=project, user=user).first()
    if membership is None:
        # What groups gave before, an owner took. It stays so until they give nothing.
        if before is None and now is not None:
            add_member(project, _BY, user, now)
            annotator_of(project, user)
            people_changed(project)
        return now
    # An owner gave this role. Groups leave it alone.
    if before is None or membership.role != before:
        return None
    if now is None:
        leave_project(membership, _BY)
    else:
        change_role(membership, _BY, now)
    return now
