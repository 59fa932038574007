"""Pages of a project's people: members, invitations, joining by a link, and password links."""

import json
from collections.abc import Iterable
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth import authenticate, logout
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.models import User
from django.contrib.auth.views import (
    INTERNAL_RESET_SESSION_TOKEN,
    PasswordChangeView,
    PasswordResetConfirmView,
)
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation.letters import invitation_event, invite_by_mail, know_what_waits
from annotation.models import Annotator, Invitation
from annotation.pages.forms import (
    LONGEST_KEY,
    ConfirmForm,
    InvitationForm,
    JoinForm,
    NameTaken,
    TeamPeopleForm,
)
from annotation.people.annotators import leave_project
from annotation.people.invitations import (
    accept_invitation,
    address_of_link,
    invite,
    link_of,
    open_invitation,
    revoke_invitation,
    usable_invitations,
)
from annotation.people.personal_data import ask_to_erase, counts_held_about, held_about
from annotation.people.teams import (
    Added,
    add_to_project,
    delete_team,
    make_team,
    may_have_teams,
    members_shown,
    put_in,
    read_tags,
    rename_team,
    take_out,
    team_for,
    teams_for,
    teams_of,
)
from annotation.queue.drafts import use_language
from judging.core.errors import UserError
from judging.core.formatting import number_of
from judging.projects import mail
from judging.projects.access import Access, change_role, lacks_rights, project_for
from judging.projects.accounts import PasswordLinks, password_link_behind, reset_link, use_up
from judging.projects.logins import enter, is_proved, keep_listed, log_in
from judging.projects.mail import OPTIONAL, mail_is_configured
from judging.projects.models import Mail, MailSettings, Membership, Role


@require_http_methods(["GET", "HEAD", "POST"])
def people(request: HttpRequest, slug: str) -> HttpResponse:
    """Show members, valid invitations, and people whose votes were imported; invite people."""
    access = project_for(request.user, slug, Role.OWNER)
    form = InvitationForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            if address := form.cleaned_data.get("mail_to"):
                invitation = invite_by_mail(access.project, access.user, form.terms(), address)
                sentence = "The link is ready, and a mail with it is on its way."
            else:
                invitation = invite(access.project, request.user, form.terms())
                sentence = "The link is ready. Send it to the people you want to invite."
        except UserError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, sentence)
            return redirect(f"{request.path}#invitation-{invitation.pk}")
    return people_page(request, access, form=form, status=422 if form.errors else 200)


@require_POST
def member(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Change a member's role, remove them, or make a link that resets their password."""
    access = project_for(request.user, slug, Role.OWNER)
    memberships = Membership.objects.select_related("user", "project")
    membership = get_object_or_404(memberships, project=access.project, pk=number)
    try:
        if "link" in request.POST:
            # Shown once on this page: a message would leave the link in a cookie.
            reset = (membership.user.get_username(), reset_link(membership, request.user))
            return people_page(request, access, reset=reset)
        if "remove" in request.POST:
            leave_project(membership, request.user, made_for=request.POST.get("made_for"))
            messages.success(request, "They no longer belong to the project. Their votes stay.")
        else:
            sent = request.POST
            change_role(
                membership, request.user, sent.get("role", ""), made_for=sent.get("made_for")
            )
            messages.success(request, "The role was changed.")
    except UserError as error:
        messages.error(request, str(error))
    return redirect("people", slug)


@require_POST
def people_team(request: HttpRequest, slug: str) -> HttpResponse:
    """Make the people of one of your teams annotators of the project."""
    access = project_for(request.user, slug, Role.OWNER)
    number = request.POST.get("team", "")
    try:
        if not number.isdecimal() or len(number) > LONGEST_KEY:
            raise UserError("Choose a team. Nobody was added.")
        team = team_for(access.user, int(number))
        messages.success(request, say_added(add_to_project(team, access.project, access.user)))
    except UserError as error:
        messages.error(request, str(error))
    return redirect("people", slug)


def say_added(added: Added) -> str:
    sentence = (
        f"{number_of(added.joined, 'annotator')} added. {added.already} were members already."
    )
    if added.to_invite:
        who = "1 person" if added.to_invite == 1 else f"{added.to_invite} people"
        sentence += (
            f" Invite {who} by a link: they left this project, or all projects of the owner."
        )
    return sentence


@require_http_methods(["GET", "HEAD", "POST"])
def teams(request: HttpRequest) -> HttpResponse:
    """List the teams of an owner, and make one."""
    user = cast(User, request.user)
    shown = teams_of(user)
    if not (user.is_superuser or may_have_teams(user) or shown.exists()):
        raise Http404("No such page.")
    problem, name = "", request.POST.get("name", "")
    if request.method == "POST":
        try:
            return redirect("team", make_team(user, name).pk)
        except UserError as error:
            problem = str(error)
    context = {
        "teams": shown.annotate(n=Count("members")),
        "problem": problem,
        "name": name,
        "may_make": may_have_teams(user),
    }
    status = 422 if problem else 200
    return render(request, "annotation/people/teams.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def team(request: HttpRequest, number: int) -> HttpResponse:
    """One team: its people with their tags, its name, and its end."""
    user = cast(User, request.user)
    own_team = team_for(user, number)
    sent = request.POST
    form = TeamPeopleForm(own_team, sent if "add" in sent else None)
    confirm = ConfirmForm(own_team.name, sent if "delete" in sent else None)
    try:
        if "add" in sent and form.is_valid():
            put_in(own_team, user, form.cleaned_data["people"], form.cleaned_data["tags"])
        elif "rename" in sent:
            rename_team(own_team, user, sent.get("name", ""))
        elif "delete" in sent and confirm.is_valid():
            delete_team(own_team, user)
            messages.success(request, "The team was deleted. Its people stay in their projects.")
            return redirect("teams")
        elif "member" in sent:
            key = sent["member"] if len(sent["member"]) <= LONGEST_KEY else ""
            rows = own_team.members.select_related("user")
            row = get_object_or_404(rows, pk=int(key) if key.isdecimal() else 0)
            if "remove" in sent:
                take_out(own_team, user, row.user)
            else:
                put_in(own_team, user, [row.user], read_tags(sent.get("tags", "")))
    except UserError as error:
        messages.error(request, str(error))
        return redirect("team", number)
    if sent and not (form.errors or confirm.errors):
        messages.success(request, "The team was changed.")
        return redirect("team", number)
    context = {
        "team": own_team,
        "form": form,
        "confirm": confirm,
        "members": members_shown(own_team),
        "others": form.fields["people"].queryset.exists(),
    }
    status = 422 if form.errors or confirm.errors else 200
    return render(request, "annotation/people/team.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def leave(request: HttpRequest, slug: str) -> HttpResponse:
    """Leave the project yourself."""
    access = project_for(request.user, slug)
    use_language(request.user, access.project.language)
    if request.method != "POST":
        return render(request, "annotation/people/leave.html", {"project": access.project})
    if access.membership is None:
        messages.error(
            request, _("You are not a member of this project, so there is nothing to leave.")
        )
        return redirect("home")
    try:
        leave_project(access.membership, access.user)
    except UserError as error:
        messages.error(request, str(error))
        return redirect("project_leave", slug)
    messages.success(
        request, _("You left %(name)s. Your votes stay.") % {"name": access.project.name}
    )
    return redirect("home")


@require_POST
def invitation_revoke(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access = project_for(request.user, slug, Role.OWNER)
    invitation = get_object_or_404(Invitation, project=access.project, pk=number)
    revoke_invitation(invitation, request.user)
    messages.success(request, "The link was withdrawn. People who joined by it stay.")
    return redirect("people", slug)


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def join(request: HttpRequest, token: str) -> HttpResponse:
    """Accept an invitation with the current login, or with a new one."""
    try:
        invitation = open_invitation(token, request.user)
        use_language(request.user, invitation.project.language)
        address = address_of_link(token) if mail_is_configured() else ""
        form = None if request.user.is_authenticated else JoinForm(request.POST or None)
        if request.method == "POST" and (form is None or form.is_valid()):
            keep = address if "own_address" in request.POST else ""
            return _join(request, invitation, form, keep)
    except UserError as error:
        context = {"refused": str(error)}
        return render(request, "annotation/invitations/refused.html", context, status=410)
    except NameTaken as taken:
        form.add_error("username", str(taken))
    context = {"form": form, "invitation": invitation, "address": address}
    if form is None and (mine := _role_here(request, invitation)):
        context["kept"] = role_kept(mine, invitation.role)
    status = 422 if form is not None and form.errors else 200
    return render(request, "annotation/invitations/join.html", context, status=status)


class SetPassword(PasswordResetConfirmView):
    """Set a password by a link. At each step its maker must still have the right to make it."""

    success_url = "/"
    token_generator = PasswordLinks()

    def form_valid(self, form: SetPasswordForm) -> HttpResponse:
        token = self.request.session.get(INTERNAL_RESET_SESSION_TOKEN)
        with transaction.atomic():
            link = password_link_behind(self.user, token)
            # Somebody else used it, or a membership changed, at this very moment.
            if link is None or not use_up(link):
                self.validlink = False
                return self.render_to_response(self.get_context_data())
            super().form_valid(form)
            # The link replaces the password, and no second factor.
            return redirect(enter(self.request, form.user, self.success_url))


class OwnPasswordForm(PasswordChangeForm):
    """Counts wrong old passwords with the failed logins: a session left open is no way around."""

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self.request = request
        super().__init__(request.user, *args, **kwargs)

    def clean_old_password(self) -> str:
        old = self.cleaned_data["old_password"]
        if authenticate(self.request, username=self.user.get_username(), password=old) is None:
            raise ValidationError(self.error_messages["password_incorrect"])
        return old


class PasswordForm(OwnPasswordForm):
    """Asks for the password again, so that a session that was left open can't do everything."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["new_password1"], self.fields["new_password2"]
        self.fields["old_password"].label = _("Your password")
        # The page is read first.
        del self.fields["old_password"].widget.attrs["autofocus"]
        if not self.user.has_usable_password():
            del self.fields["old_password"]

    def clean(self) -> dict[str, Any]:
        if "old_password" not in self.fields and not is_proved(self.request):
            raise ValidationError(_("Log out and log in again, then erase within 15 minutes."))
        return self.cleaned_data


class EraseForm(PasswordForm):
    remove_votes = forms.BooleanField(
        required=False,
        label=_lazy("Remove my votes as well"),
        help_text=_lazy("Otherwise they stay under a pseudonym, without your comments."),
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def own_data(request: HttpRequest) -> HttpResponse:
    """Show what is held about the person who asks, and erase them if they want that."""
    user = cast(User, request.user)
    form = EraseForm(request, request.POST or None)
    if form.is_bound and form.is_valid():
        try:
            ask_to_erase(user, remove_votes=form.cleaned_data["remove_votes"])
        except UserError as error:
            form.add_error(None, str(error))
        else:
            logout(request)
            return render(request, "annotation/people/erased.html")
    context = {"form": form, "counts": counts_held_about(user)}
    status = 422 if form.errors else 200
    return render(request, "annotation/people/own_data.html", context, status=status)


@never_cache
@require_safe
def own_data_file(request: HttpRequest) -> StreamingHttpResponse:
    """Send all that is held about the person who asks, as JSON lines."""
    rows = held_about(cast(User, request.user))
    lines = (json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
    response = StreamingHttpResponse(lines, content_type="application/x-ndjson")
    response["Content-Disposition"] = 'attachment; filename="what-is-held-about-me.jsonl"'
    return response


class AddressForm(PasswordForm):
    """Links for new passwords go to the address."""

    address = forms.EmailField(
        max_length=254,
        label=_lazy("Your mail address"),
        widget=forms.EmailInput(attrs={"dir": "ltr"}),
    )
    field_order = ("address", "old_password")


class MailForm(forms.ModelForm):
    class Meta:
        model = MailSettings
        fields = OPTIONAL


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def own_mail(request: HttpRequest) -> HttpResponse:
    """Show and change a person's address, and which mails they get."""
    user, sent = cast(User, request.user), request.POST
    form = AddressForm(request, sent if "address" in sent else None)
    wanted = MailForm(sent if "wanted" in sent else None, instance=mail.settings_of(user))
    asked = ""
    if "wanted" in sent and wanted.is_valid():
        mail.choose(user, **{name: wanted.cleaned_data[name] for name in OPTIONAL})
        messages.success(request, _("Your choice was saved."))
        return redirect("own_mail")
    if "remove" in sent:
        User.objects.filter(pk=user.pk).update(email="")
        messages.success(request, _("Your address was removed. You get no more mail."))
        return redirect("own_mail")
    if form.is_bound and form.is_valid() and mail_is_configured():
        asked = form.cleaned_data["address"]
        with transaction.atomic():
            mail.ask_to_confirm(user, asked)
    context = {
        "form": form,
        "wanted": wanted,
        "asked": asked,
        "can_mail": mail_is_configured(),
        "address": user.email,
    }
    status = 422 if form.errors else 200
    return render(request, "annotation/people/own_mail.html", context, status=status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def mail_confirm(request: HttpRequest, token: str) -> HttpResponse:
    """Ask the person who opened the link of a mail whether the address is theirs, and keep it."""
    user, context = cast(User, request.user), {}
    try:
        context["address"] = mail.confirm(user, token, write=request.method == "POST")
    except UserError as error:
        context["refused"] = str(error)
        return render(request, "annotation/people/mail_confirm.html", context, status=410)
    if request.method == "POST":
        know_what_waits(user)
        messages.success(request, _("FairJudge sends mail to you at this address from now on."))
        return redirect("own_mail")
    return render(request, "annotation/people/mail_confirm.html", context)


# A mail program that posts has no cookie and no page of ours. The link's signature is the proof.
@csrf_exempt
@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def mail_off(request: HttpRequest, token: str) -> HttpResponse:
    """Turn a kind of mail off by its signed link, which mail programs post to (RFC 8058).

    Opening it asks first, since programs that look for bad links open it, too.
    """
    context: dict[str, Any] = {"done": request.method == "POST"}
    try:
        user, kind = mail.off_behind(token)
    except UserError as error:
        context = {"refused": str(error)}
        return render(request, "annotation/people/mail_off.html", context, status=410)
    if request.method == "POST":
        mail.choose(user, **{kind: False})
    context["what"] = MailSettings._meta.get_field(kind).verbose_name
    return render(request, "annotation/people/mail_off.html", context)


class ChangePassword(PasswordChangeView):
    form_class = OwnPasswordForm

    def get_form_kwargs(self) -> dict[str, Any]:
        kwargs = super().get_form_kwargs()
        # The form takes the user from the request.
        del kwargs["user"]
        return kwargs | {"request": self.request}

    def form_valid(self, form: PasswordChangeForm) -> HttpResponse:
        # Django gives the session a new key with the new password, and the list of the person's
        # logins has to follow it.
        before = self.request.session.session_key
        response = super().form_valid(form)
        keep_listed(self.request, before)
        return response


def people_page(
    request: HttpRequest,
    access: Access,
    *,
    form: InvitationForm | None = None,
    reset: tuple[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    project = access.project
    members = project.memberships.select_related("user")
    context = {
        **access.under("settings"),
        "form": form or InvitationForm(),
        "reset": reset,
        "members": members.order_by("joined_at", "pk"),
        "roles": Role.choices,
        "invitations": with_mails(usable_invitations(project)),
        "annotators": Annotator.objects.filter(project=project, user=None).order_by("number"),
        "teams": teams_for(project, cast(User, access.user)),
    }
    # The page shows links that let people in, so no browser or proxy may keep it.
    response = render(request, "annotation/people/people.html", context, status=status)
    add_never_cache_headers(response)
    return response


def with_mails(invitations: Iterable[Invitation]) -> list[tuple[Invitation, str, Mail | None]]:
    """Return each invitation with its link and, if it was to be mailed, the mail."""
    listed = list(invitations)
    mails = Mail.objects.filter(event__in=map(invitation_event, listed))
    by_event = {queued.event: queued for queued in mails}
    return [
        (invitation, link_of(invitation), by_event.get(invitation_event(invitation)))
        for invitation in listed
    ]


def role_kept(mine: str, offered: str) -> str:
    """Say that a link changes no member's role, or nothing if it offers no further right."""
    if not lacks_rights(mine, of=offered):
        return ""
    return _(
        "You are already a member, as %(label)s. This link is for a new %(offered)s "
        "and doesn't change your role. Ask an owner to make you %(offered)s on the "
        "page People."
    ) % {"label": Role(mine).label, "offered": Role(offered).label}


def _role_here(request: HttpRequest, invitation: Invitation) -> str | None:
    members = Membership.objects.filter(project=invitation.project_id, user=request.user.pk)
    return members.values_list("role", flat=True).first()


def _join(
    request: HttpRequest, invitation: Invitation, form: JoinForm | None, address: str
) -> HttpResponse:
    # In one transaction: if the last use went to somebody else, no login is left behind.
    with transaction.atomic():
        user = cast(User, request.user) if form is None else form.create()
        membership = accept_invitation(invitation, user)
        if address and form is not None:
            # The mail with the link came to this address.
            User.objects.filter(pk=user.pk).update(email=address)
            know_what_waits(user)
    if lacks_rights(membership.role, of=invitation.role):
        messages.warning(request, role_kept(membership.role, invitation.role))
    if form is not None:
        log_in(request, user)
    if membership.role == Role.ANNOTATOR:
        return redirect("annotate")
    return redirect("project", invitation.project.slug)
