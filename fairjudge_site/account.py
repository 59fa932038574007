"""The pages of one's own login: its sessions, its second factors, proving who one is, and the mail
that sets a new password.
"""

import json
from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from axes.handlers.proxy import AxesProxyHandler
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import authenticate
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation.letters import mail_password_link
from annotation.screen.crowd import CROWD
from fairjudge_site.requests import Answer, hooked, own_address
from fairjudge_site.sign_on import connect_key
from judging.core import languages
from judging.core.errors import UserError
from judging.projects import factors, logins
from judging.projects.mail import mail_is_configured
from judging.projects.models import (
    LoginSession,
    PasswordLink,
    Preferences,
    RecoveryCode,
    SecondFactor,
)

# In a session: what a page under way has to be checked against.
_CHALLENGE = "passkey_challenge"
_NEW_SECRET = "new_app_secret"
# A browser's answer has some kilobytes.
_LONGEST_ANSWER = 20_000
_MOST_RESETS = 3

View = Callable[..., HttpResponse]


class CodeForm(forms.Form):
    code = forms.CharField(
        label=_lazy("Code"),
        max_length=40,
        help_text=_lazy("Six digits from your app, or one of your recovery codes."),
        widget=forms.TextInput(
            attrs={"autocomplete": "one-time-code", "autofocus": True, "spellcheck": "false"}
        ),
    )


class AppForm(forms.Form):
    code = forms.CharField(
        label=_lazy("Code that the app shows now"),
        max_length=20,
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "inputmode": "numeric"}),
    )
    name = forms.CharField(
        label=_lazy("Name"),
        max_length=60,
        initial=_lazy("Authenticator app"),
        help_text=_lazy("To tell yours apart."),
    )


class ProofForm(forms.Form):
    """Counts wrong passwords with the failed logins."""

    password = forms.CharField(
        label=_lazy("Your password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "autofocus": True}),
    )


class ForgottenForm(forms.Form):
    who = forms.CharField(
        label=_lazy("User name or mail address"),
        max_length=254,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autofocus": True}),
    )


# The second step of a login, and proving again who one is


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def second_step(request: HttpRequest) -> HttpResponse:
    """Ask for the second factor of a person who gave the first, and log them in."""
    expected = logins.expected_at(request)
    if expected is None:
        return redirect("login")

    def enter() -> HttpResponse:
        logins.log_in(request, expected.user, has_second=True)
        return redirect(expected.next)

    return _ask_factor(request, expected.user, enter, _("Enter your second factor"))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def confirm(request: HttpRequest) -> HttpResponse:
    """Ask a person who is logged in to prove who they are, before something that needs it."""
    user = cast(User, request.user)
    # Only an address of this site, so that no link leads a person elsewhere afterwards.
    next_ = own_address(request, request.GET.get("next", "")) or reverse("account")
    if factors.has_factor(user):

        def go_on() -> HttpResponse:
            logins.prove(request, has_second=True)
            return redirect(next_)

        return _ask_factor(request, user, go_on, _("Confirm that it is you"))
    # Somebody who logs in by a provider alone has no password to prove.
    posted = request.POST if request.method == "POST" and user.has_usable_password() else None
    form, status = ProofForm(posted), 200
    if form.is_bound and form.is_valid():
        word = form.cleaned_data["password"]
        if authenticate(request, username=user.get_username(), password=word) is not None:
            logins.prove(request, has_second=False)
            return redirect(next_)
        form.add_error("password", _("This is not your password. Nothing was changed."))
        status = 422
    context = {"form": form, "has_password": user.has_usable_password()}
    return render(request, "registration/confirm.html", context, status=status)


def _ask_factor(
    request: HttpRequest, user: User, done: Callable[[], HttpResponse], heading: str
) -> HttpResponse:
    posted = request.POST if request.method == "POST" else None
    # A challenge is used once, so that an answer that was overheard can't be sent again.
    challenge = request.session.pop(_CHALLENGE, None)
    form, status = CodeForm(None if posted and "answer" in posted else posted), 200
    if posted and "answer" in posted:
        answer = _answer_in(posted["answer"])
        if challenge and answer and factors.check_passkey(user, challenge, answer):
            return done()
        messages.error(request, _("This passkey was not accepted. Try again, or enter a code."))
        status = 422
    elif form.is_bound:
        status = 422
        try:
            if form.is_valid() and factors.check_code(user, form.cleaned_data["code"]):
                return done()
            if form.is_valid():
                form.add_error("code", _("This code is wrong, too old, or was used before."))
        except UserError as error:
            form.add_error(None, str(error))
            status = 429 if isinstance(error, factors.TooManyTries) else 422
    options = None
    if asked := factors.ask_passkey(user):
        options, request.session[_CHALLENGE] = json.dumps(asked[0]), asked[1]
    context = {
        "form": form,
        "heading": heading,
        "options": options,
        "name": user.get_username(),
        "has_app": factors.factors_of(user).filter(kind=SecondFactor.Kind.APP).exists(),
    }
    return render(request, "registration/second_step.html", context, status=status)


def _answer_in(text: str) -> dict[str, Any] | None:
    try:
        answer = json.loads(text) if len(text) <= _LONGEST_ANSWER else None
    # A text of brackets alone makes the parser recurse too deep.
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


# One's own page


@never_cache
@require_safe
def account(request: HttpRequest) -> HttpResponse:
    """Show how a person logs in, what protects it, and where they are logged in."""
    return _account_page(request)


def _account_page(request: HttpRequest, codes: list[str] | None = None) -> HttpResponse:
    user = cast(User, request.user)
    offered = settings.FAIRJUDGE_OIDC.values()
    labels = {provider["issuer"]: provider["label"] for provider in offered}
    mine = [(row, labels.get(row.issuer, row.issuer)) for row in user.sign_ons.exclude(subject="")]
    known = {row.issuer for row, _ in mine}
    context = {
        "can_mail": mail_is_configured(),
        "codes": codes,
        "sessions": logins.sessions_of(user),
        "current": request.session.session_key,
        "offered": factors.are_offered(),
        "required": settings.FAIRJUDGE_SECOND_FACTOR == factors.REQUIRED,
        "factors": factors.factors_of(user) if factors.are_offered() else [],
        "has_app": factors.factors_of(user).filter(kind=SecondFactor.Kind.APP).exists(),
        "n_codes": RecoveryCode.objects.filter(user=user).count(),
        "passkeys_work": factors.passkeys_work(),
        "sign_ons": mine,
        "to_connect": [provider for provider in offered if provider["issuer"] not in known],
        "connect_key": connect_key(request),
    }
    return render(request, "registration/account.html", context)


@require_POST
def sessions_end(request: HttpRequest) -> HttpResponse:
    """End one of a person's sessions, or all but this one."""
    user = cast(User, request.user)
    number = request.POST.get("session", "")
    if number == "others":
        logins.end_sessions(user, but=request.session.session_key)
        messages.success(request, _("You are logged out everywhere else."))
    # No key of the database has more digits.
    elif not number.isdecimal() or len(number) > 18:
        messages.error(request, _("Choose a session to end. Nothing was changed."))
    else:
        session = get_object_or_404(LoginSession, pk=int(number), user=user)
        logins.end_session(session)
        messages.success(
            request,
            _("You are logged out there: %(device)s.") % {"device": session.device_in_words},
        )
    return redirect("account")


# Second factors


def _of_person_who_proved_it(view: View) -> View:
    """Ask first who it is, unless the login or the last proof was a short time ago."""

    @wraps(view)
    def wrapped(request: HttpRequest, **arguments: Any) -> HttpResponse:
        if not factors.are_offered():
            raise Http404("This site asks for no second factor.")
        if logins.is_proved(request):
            return view(request, **arguments)
        # A form isn't sent again after the proof, so a person goes on from their own page.
        next_ = request.path if request.method in ("GET", "HEAD") else reverse("account")
        return redirect(logins.proving(next_))

    return never_cache(wrapped)


@_of_person_who_proved_it
@require_http_methods(["GET", "HEAD", "POST"])
def factor_app(request: HttpRequest) -> HttpResponse:
    """Show what an authenticator app has to read, and add it once it shows the right code."""
    user = cast(User, request.user)
    # Sealed in the session until a code shows that the app has read it.
    kept = request.session.get(_NEW_SECRET)
    secret = factors.unseal(kept) if kept else factors.new_secret()
    form, status = AppForm(request.POST or None), 200
    if form.is_bound and form.is_valid() and kept:
        try:
            code, name = form.cleaned_data["code"], form.cleaned_data["name"]
            codes = factors.add_app(user, secret, code, name)
        except UserError as error:
            form.add_error("code", str(error))
            status = 429 if isinstance(error, factors.TooManyTries) else 422
        else:
            del request.session[_NEW_SECRET]
            return _added(request, codes)
    if not kept:
        request.session[_NEW_SECRET] = factors.seal(secret)
    address = factors.app_address(user, secret)
    context = {"form": form, "secret": secret, "picture": factors.picture_of(address)}
    status = 422 if form.errors and status == 200 else status
    return render(request, "registration/factor_app.html", context, status=status)


@_of_person_who_proved_it
@require_http_methods(["GET", "HEAD", "POST"])
def factor_passkey(request: HttpRequest) -> HttpResponse:
    """Let the browser make a passkey, and add it."""
    user = cast(User, request.user)
    if not factors.passkeys_work():
        raise Http404("Browsers make no passkeys for an address like this one.")
    challenge = request.session.pop(_CHALLENGE, None)
    status = 200
    if request.method == "POST":
        try:
            answer = _answer_in(request.POST.get("answer", ""))
            if not challenge or answer is None:
                raise UserError(_("This page was too old. Nothing was changed. Try again."))
            codes = factors.add_passkey(user, challenge, answer, request.POST.get("name", ""))
            return _added(request, codes)
        except UserError as error:
            messages.error(request, str(error))
            status = 422
    options, request.session[_CHALLENGE] = factors.offer_passkey(user)
    context = {"options": json.dumps(options), "name": request.POST.get("name", "Passkey")}
    return render(request, "registration/factor_passkey.html", context, status=status)


def _added(request: HttpRequest, codes: list[str]) -> HttpResponse:
    logins.prove(request, has_second=True)
    messages.success(request, _("Your second factor was added. The next login asks for it."))
    return _account_page(request, codes) if codes else redirect("account")


@_of_person_who_proved_it
@require_POST
def recovery_codes(request: HttpRequest) -> HttpResponse:
    """Make new recovery codes, which are shown once."""
    user = cast(User, request.user)
    if not factors.has_factor(user):
        messages.error(request, _("Add an authenticator app or a passkey first."))
        return redirect("account")
    return _account_page(request, factors.new_codes(user))


@_of_person_who_proved_it
@require_POST
def factor_remove(request: HttpRequest, number: int) -> HttpResponse:
    user = cast(User, request.user)
    factor = get_object_or_404(SecondFactor, pk=number, user=user)
    factors.remove(factor, user)
    is_app = factor.kind == SecondFactor.Kind.APP
    message = _("The authenticator app was removed.") if is_app else _("The passkey was removed.")
    messages.success(request, message)
    return redirect("account")


def asks_for_second_factor(get_response: Answer) -> Answer:
    """Lead people without a second factor in their session to where they give it or add one.

    Pages without a login, the REST interface with its tokens, and crowd links are open as before.
    """

    def process_view(request: HttpRequest, view: Any, *more: Any) -> HttpResponse | None:
        if not getattr(view, "login_required", True) or not request.user.is_authenticated:
            return None
        if request.session.get(logins.SECOND) or CROWD in request.session:
            return None
        match = request.resolver_match
        if match and match.url_name in _BEFORE_SECOND:
            return None
        # Scripts of the page for voting can't follow to a form. They show this text.
        if "X-Annotate" in request.headers:
            text = _("This site now asks for a second factor. Load the page again to go on.")
            return HttpResponse(text, status=409, content_type="text/plain; charset=utf-8")
        if factors.has_factor(cast(User, request.user)):
            asked = request.get_full_path() if request.method == "GET" else "/"
            return redirect(logins.proving(asked))
        messages.info(request, _("This site requires a second factor. Add one, then go on."))
        return redirect("account")

    return hooked(get_response, process_view=process_view)


# What a person needs in order to give a second factor, or to add one.
_BEFORE_SECOND = {
    "account", "confirm", "factor_app", "factor_passkey", "language", "logout", "password_change",
    "recovery_codes", "sessions_end",
}  # fmt: skip


# The language of pages


@login_not_required
@require_POST
def language(request: HttpRequest) -> HttpResponse:
    """Keep the language that a person chose: with their login, or in this browser before one."""
    asked = request.POST.get("language", "")
    back = redirect(own_address(request, request.POST.get("next", "")) or "/")
    if asked and languages.known(asked) != asked:
        messages.error(request, _("Choose one of the languages. Nothing was changed."))
        return back
    if request.user.is_authenticated:
        Preferences.objects.update_or_create(user=request.user, defaults={"language": asked})
        # The login holds the choice now, and the cookie would outlast it in this browser.
        back.delete_cookie(settings.LANGUAGE_COOKIE_NAME)
        return back
    back.set_cookie(
        settings.LANGUAGE_COOKIE_NAME,
        asked,
        max_age=settings.LANGUAGE_COOKIE_AGE,
        httponly=settings.LANGUAGE_COOKIE_HTTPONLY,
        samesite=settings.LANGUAGE_COOKIE_SAMESITE,
        secure=settings.LANGUAGE_COOKIE_SECURE,
    )
    return back


# A forgotten password


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def password_forgot(request: HttpRequest) -> HttpResponse:
    """Mail a link that sets a new password, to a login that has a mail address and a password.

    The answer is the same for every name. A worker sends the mail, whose time would tell whether
    there is such a login.
    """
    if not mail_is_configured():
        raise Http404("This site sends no mail.")
    form = ForgottenForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        # Each request counts like a failed login, so that nobody asks for many.
        tried = {"username": _RESETS}
        if not AxesProxyHandler.is_allowed(request, tried):
            later = {"cooloff_timedelta": settings.AXES_COOLOFF_TIME, "is_reset": True}
            return render(request, "registration/locked.html", later, status=429)
        AxesProxyHandler.user_login_failed(sender=__name__, credentials=tried, request=request)
        with transaction.atomic():
            for user in _meant_by(form.cleaned_data["who"]):
                mail_password_link(PasswordLink.objects.create(user=user))
        return render(request, "registration/password_forgot.html", {"is_sent": True})
    status = 422 if form.errors else 200
    return render(request, "registration/password_forgot.html", {"form": form}, status=status)


_RESETS = "password reset"


def _meant_by(who: str) -> list[User]:
    """Return the logins of this name or mail address that may get a link now."""
    # PostgreSQL refuses a text with NUL.
    if "\0" in who:
        return []
    meant = User.objects.filter(Q(username=who) | Q(email__iexact=who), is_active=True)
    since = timezone.now() - settings.AXES_COOLOFF_TIME
    own = PasswordLink.objects.filter(made_by=None, created_at__gt=since)
    return [
        user
        for user in meant.exclude(email="").order_by("pk")[:_MOST_RESETS]
        if user.has_usable_password() and own.filter(user=user).count() < _MOST_RESETS
    ]
