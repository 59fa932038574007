"""Who belongs to a project; inviting, changing roles, one-time password links."""

from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from annotation.forms import InvitationForm, JoinForm
from annotation.invitations import accept, invite, link_of, open_invitation, revoke
from annotation.models import Annotator, Invitation
from judging import audit
from judging.access import project_for
from judging.errors import UserError
from judging.models import Membership, Role
from judging.people import password_link
from judging.projects import change_role, remove_member


@require_http_methods(["GET", "POST"])
def people(request: HttpRequest, slug: str) -> HttpResponse:
    """Members, invitations that still work, and the people whose votes were imported."""
    access = project_for(request.user, slug, Role.OWNER)
    project = access.project
    form = InvitationForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        invitation = invite(project, request.user, form.terms())
        messages.success(request, "The link is ready. Send it to whom it is for.")
        return redirect(f"{request.path}#invitation-{invitation.pk}")
    open_now = project.invitations.filter(revoked_at=None, expires_at__gte=timezone.now())
    found = {
        "project": project,
        "access": access,
        "tab": "settings",
        "form": form,
        "members": project.memberships.select_related("user").order_by("role", "user__username"),
        "roles": Role.choices,
        "invitations": [(one, link_of(one)) for one in open_now.order_by("-pk")],
        "annotators": Annotator.objects.filter(project=project, user=None).order_by("number"),
    }
    return render(
        request, "annotation/people/people.html", found, status=422 if form.errors else 200
    )


@require_POST
def member(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Change a member's role, remove them, or make a link that resets their password."""
    access = project_for(request.user, slug, Role.OWNER)
    membership = get_object_or_404(
        Membership.objects.select_related("user", "project"), project=access.project, pk=number
    )
    try:
        if "remove" in request.POST:
            remove_member(membership, request.user)
            messages.success(request, "They no longer belong to the project. Their votes stay.")
        elif "link" in request.POST:
            _reset_link(request, membership)
        else:
            change_role(membership, request.user, request.POST.get("role", ""))
            messages.success(request, "The role was changed.")
    except UserError as error:
        messages.error(request, str(error))
    return redirect("people", slug)


@require_POST
def invitation_revoke(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access = project_for(request.user, slug, Role.OWNER)
    found = get_object_or_404(Invitation, project=access.project, pk=number)
    revoke(found, request.user)
    messages.success(request, "The link was withdrawn. Who joined by it stays.")
    return redirect("people", slug)


@login_not_required
@require_http_methods(["GET", "POST"])
def join(request: HttpRequest, token: str) -> HttpResponse:
    """Accept an invitation: as who one is, or with a new login made on the way."""
    try:
        invitation = open_invitation(token)
    except UserError as error:
        found = {"refused": str(error)}
        return render(request, "annotation/invitations/refused.html", found, status=410)
    form = None
    if not request.user.is_authenticated:
        form = JoinForm(request.POST or None)
    if request.method == "POST" and (form is None or form.is_valid()):
        try:
            return _join(request, invitation, form)
        except UserError as error:
            found = {"refused": str(error)}
            return render(request, "annotation/invitations/refused.html", found, status=410)
    found = {"form": form, "invitation": invitation, "token": token}
    status = 422 if form is not None and form.errors else 200
    return render(request, "annotation/invitations/join.html", found, status=status)


def _join(request: HttpRequest, invitation: Invitation, form: JoinForm | None) -> HttpResponse:
    user = request.user if form is None else form.save()
    try:
        membership = accept(invitation, user)
    except UserError:
        if form is not None:
            user.delete()
        raise
    if form is not None:
        login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    if membership.role == Role.ANNOTATOR:
        return redirect("annotate")
    return redirect("project", invitation.project.slug)


def _reset_link(request: HttpRequest, membership: Membership) -> None:
    """Only for people who belong to nothing that this owner does not own: a link is a way in."""
    user = membership.user
    elsewhere = Membership.objects.filter(user=user).exclude(
        project__memberships__user=request.user, project__memberships__role=Role.OWNER
    )
    if user.is_superuser or elsewhere.exists():
        raise UserError(
            "This person belongs to projects that are not yours, so only an operator can reset "
            "the password: manage.py password_link NAME"
        )
    audit.record(membership.project, request.user, "password link made", user.get_username())
    messages.success(
        request, f"{user.get_username()} sets a new password here, once: {password_link(user)}"
    )
