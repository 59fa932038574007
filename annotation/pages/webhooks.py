"""Pages of a project's webhooks: adding one, its log, and what can be done about it."""

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.cache import add_never_cache_headers
from django.views.decorators.http import require_http_methods, require_POST

from annotation.pages.forms import WebhookForm
from judging.core.errors import UserError
from judging.projects import webhooks as hooks
from judging.projects.access import Access, project_for
from judging.projects.models import Delivery, Role, Webhook

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
    found = {
        **access.under("settings"),
        "form": form,
        "webhooks": access.project.webhooks.order_by("number"),
        "events": hooks.EVENTS.items(),
    }
    status = 422 if form.errors else 200
    return render(request, "annotation/settings/webhooks.html", found, status=status)


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
        "rotate": hooks.rotate_secret,
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
    found = get_object_or_404(
        Delivery.objects.select_related("webhook__project"),
        webhook__project=access.project,
        webhook__number=number,
        pk=delivery,
    )
    try:
        hooks.send_again(found, access.user)
        messages.success(request, "The event is queued again. Reload this page to see the answer.")
    except UserError as error:
        messages.error(request, str(error))
    return redirect("webhook", slug, number)


def _page(request: HttpRequest, access: Access, hook: Webhook, secret: str = "") -> HttpResponse:
    deliveries = hook.deliveries.order_by("-pk").defer("body")
    found = {
        **access.under("settings"),
        "webhook": hook,
        "secret": secret,
        "page": Paginator(deliveries, _PAGE).get_page(request.GET.get("page")),
    }
    response = render(request, "annotation/settings/webhook.html", found)
    if secret:
        # Shown once: no cache may keep it.
        add_never_cache_headers(response)
    return response
