"""Pages of a project's settings, audit trail and webhooks, and its deletion."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import AbstractUser
from django.core.paginator import Paginator
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.cache import add_never_cache_headers
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation import retention
from annotation.deletion import delete_project
from annotation.pages.forms import ConfirmForm, SettingsForm, WebhookForm
from annotation.queue.queue import OF_EACH_ITEM
from annotation.queue.settling import settle_unblinded
from judging.core.errors import UserError
from judging.projects import access as projects_access
from judging.projects import webhooks as hooks
from judging.projects.access import Access, project_for, version_of
from judging.projects.models import Delivery, Project, Role, Webhook

_PAGE = 50
# Longer values are cut on the page; the audit trail keeps them whole.
_SHOWN = 200


@require_http_methods(["GET", "HEAD", "POST"])
def settings(request: HttpRequest, slug: str) -> HttpResponse:
    access = project_for(request.user, slug, Role.OWNER)
    project = access.project
    if request.method == "POST":
        form = change_settings(project, access.user, lambda now: request.POST)
        if not form.errors:
            messages.success(request, "The settings are saved. Open rounds keep what they asked.")
            return redirect("settings", slug)
    else:
        form = SettingsForm(instance=project)
    if form.errors:
        # The form has put what was typed into the project already; the page names the real one.
        project = project_for(request.user, slug, Role.OWNER).project
    context = {"form": form, "project": project, "access": access, "tab": "settings"}
    return render(
        request, "annotation/settings/settings.html", context, status=422 if form.errors else 200
    )


def change_settings(
    project: Project, user: AbstractUser, sent: Callable[[Project], Mapping[str, Any]]
) -> SettingsForm:
    """Change settings, and return the form. It has errors if nothing was changed.

    Args:
        sent: Returns the form's data, for the settings as they are now.
    """
    with transaction.atomic():
        # Locked, so that of two forms at once the second is compared with the first.
        project = Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        form = SettingsForm(sent(project), instance=project, by=user)
        is_valid = form.is_valid()
        if is_valid:
            _save(form, user)
    if is_valid and "leave_out_unblinded" in form.chosen:
        # In transactions of its own: there may be thousands of items.
        settle_unblinded(project)
    return form


def _save(form: SettingsForm, user: AbstractUser) -> None:
    project = form.save()
    if made := form.changes():
        projects_access.record_event(project, user, "settings changed", ", ".join(made), **made)


@require_safe
def trail(request: HttpRequest, slug: str) -> HttpResponse:
    """Show who did what and when. Events of single items are shown on demand only."""
    access = project_for(request.user, slug, Role.OWNER)
    events = access.project.audit_events.select_related("user").order_by("-at", "-pk")
    with_votes = "votes" in request.GET
    if not with_votes:
        events = events.exclude(action__in=OF_EACH_ITEM)
    page = Paginator(events, _PAGE).get_page(request.GET.get("page"))
    context = {
        **access.under("settings"),
        "page": page,
        "with_votes": with_votes,
        "events": [(event, _in_one_line(event.detail)) for event in page],
    }
    return render(request, "annotation/settings/trail.html", context)


def _in_one_line(detail: dict[str, Any]) -> str:
    """Return an event's details in one line, without empty ones, and with long ones cut."""
    shown = [(name, value) for name, value in detail.items() if value not in ("", None, False)]
    return " · ".join(f"{name} {_in_words(value)}" for name, value in shown)


def _in_words(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"before", "now"}:
        return f"{_in_words(value['before'])} → {_in_words(value['now'])}"
    if isinstance(value, dict):
        value = [f"{name}: {part}" for name, part in value.items()]
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if isinstance(value, bool):
        value = "yes" if value else "no"
    text = " ".join(str(value).split()) or "(empty)"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN].rstrip()} …"


class RetentionForm(forms.Form):
    """A day for each kind of what can be removed. Empty keeps it."""

    def __init__(self, plan: list[retention.Planned], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for removal in plan:
            self.fields[removal.what] = forms.DateField(
                required=False,
                initial=removal.on,
                label=f"Remove {removal.label} on",
                help_text=removal.said,
                widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
            )


@require_http_methods(["GET", "HEAD", "POST"])
def retention_dates(request: HttpRequest, slug: str) -> HttpResponse:
    """Show what is removed from the project on which day, and change it."""
    access = project_for(request.user, slug, Role.OWNER)
    plan = retention.plan(access.project)
    form = RetentionForm(plan, request.POST or None)
    if form.is_bound and form.is_valid():
        try:
            retention.set_dates(access.project, access.user, form.cleaned_data)
        except UserError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, "The dates are saved.")
            return redirect("retention", slug)
    context = {
        **access.under("settings"),
        "form": form,
        "plan": plan,
        "due": [removal for removal in plan if removal.on and not removal.done_at],
        "waits": retention.WAITS,
    }
    status = 422 if form.errors else 200
    return render(request, "annotation/settings/retention.html", context, status=status)


@require_POST
def delete(request: HttpRequest, slug: str) -> HttpResponse:
    access = project_for(request.user, slug, Role.OWNER)
    form = ConfirmForm(access.project.slug, request.POST)
    if not form.is_valid():
        messages.error(request, form.errors["confirm"][0])
        return redirect("settings", slug)
    try:
        gone = delete_project(access.project, request.user, background=True)
    except UserError as error:
        messages.error(request, str(error))
        return redirect("settings", slug)
    if gone:
        messages.success(request, f"The project {slug} and everything in it was deleted.")
    else:
        messages.success(
            request, f"The project {slug} is deleted. Removing all its rows takes a while."
        )
    return redirect("home")


_PAGE = 50
_DONE = {
    "pause": "The webhook is paused. What waits is sent after you resume it.",
    "resume": "The webhook is on again.",
    "test": "A test event is queued. Reload this page to see the answer.",
    "delete": "The webhook is deleted.",
}


@require_http_methods(["GET", "HEAD", "POST"])
def webhooks(request: HttpRequest, slug: str) -> HttpResponse:
    """List the webhooks, and add one."""
    access = project_for(request.user, slug, Role.OWNER)
    form = WebhookForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            hook = hooks.add_webhook(access.project, access.user, **form.cleaned_data)
            return _page(request, access, hook, secret=hooks.secret_of(hook.salt))
        except UserError as error:
            form.add_error("url", str(error))
    context = {
        **access.under("settings"),
        "form": form,
        "webhooks": access.project.webhooks.order_by("number"),
        "events": hooks.EVENTS.items(),
    }
    status = 422 if form.errors else 200
    return render(request, "annotation/settings/webhooks.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def webhook(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Show a webhook and its log. Pause, resume, test or delete it, or make a new secret."""
    access = project_for(request.user, slug, Role.OWNER)
    hook = get_object_or_404(Webhook, project=access.project, number=number)
    if request.method != "POST":
        return _page(request, access, hook)
    actions = {
        "pause": hooks.pause_webhook,
        "resume": hooks.resume_webhook,
        "test": hooks.send_test,
        "rotate": partial(hooks.rotate_secret, made_for=request.POST.get("made_for")),
        "delete": hooks.remove_webhook,
    }
    chosen = next((name for name in actions if name in request.POST), "")
    try:
        if chosen:
            actions[chosen](hook, access.user)
        if chosen == "rotate":
            return _page(request, access, hook, secret=hooks.secret_of(hook.salt))
        if chosen:
            messages.success(request, _DONE[chosen])
    except UserError as error:
        messages.error(request, str(error))
    return redirect("webhooks", slug) if chosen == "delete" else redirect("webhook", slug, number)


@require_POST
def webhook_send(request: HttpRequest, slug: str, number: int, delivery: int) -> HttpResponse:
    """Send an event again."""
    access = project_for(request.user, slug, Role.OWNER)
    hook = get_object_or_404(
        Delivery.objects.select_related("webhook__project"),
        webhook__project=access.project,
        webhook__number=number,
        pk=delivery,
    )
    try:
        hooks.send_again(hook, access.user)
        messages.success(request, "The event is queued again. Reload this page to see the answer.")
    except UserError as error:
        messages.error(request, str(error))
    return redirect("webhook", slug, number)


def _page(request: HttpRequest, access: Access, hook: Webhook, secret: str = "") -> HttpResponse:
    deliveries = hook.deliveries.order_by("-pk").defer("body")
    context = {
        **access.under("settings"),
        "webhook": hook,
        "secret": secret,
        "version": version_of(hook.salt),
        "page": Paginator(deliveries, _PAGE).get_page(request.GET.get("page")),
    }
    response = render(request, "annotation/settings/webhook.html", context)
    if secret:
        # Shown once: no cache may keep it.
        add_never_cache_headers(response)
    return response
