"""The page on which a user makes and ends the tokens with which programs act for them."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import AbstractUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.cache import add_never_cache_headers
from django.views.decorators.http import require_http_methods, require_POST

from judging.core.errors import UserError
from judging.projects.access import projects_of
from judging.projects.models import Project
from judging.projects.tokens import MOST_DAYS, SCOPES, issue_token, revoke, tokens_of


class TokenForm(forms.Form):
    name = forms.CharField(label="What is it for?", max_length=100)
    scopes = forms.MultipleChoiceField(
        label="What may it do?",
        choices=[(name, f"{name}: {said}") for name, said in SCOPES.items()],
        initial=["read"],
        widget=forms.CheckboxSelectMultiple,
    )
    project = forms.ModelChoiceField(
        Project.objects.none(),
        label="Project",
        required=False,
        to_field_name="slug",
        empty_label="all of your projects",
    )
    days = forms.IntegerField(
        label="Days until it expires",
        min_value=1,
        max_value=MOST_DAYS,
        initial=90,
        required=False,
        help_text="If empty: it works until you revoke it.",
    )

    def __init__(self, user: AbstractUser, data: Any = None) -> None:
        super().__init__(data)
        self.fields["project"].queryset = projects_of(user).order_by("slug")


@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """List the user's tokens. A new one is in the answer to the form, and nowhere afterwards."""
    user = request.user
    form = TokenForm(user, request.POST if request.method == "POST" else None)
    made, text = None, ""
    if request.method == "POST" and form.is_valid():
        try:
            made, text = issue_token(user, by=user, **form.cleaned_data)
            form = TokenForm(user)
        except UserError as error:
            form.add_error(None, str(error))
    context = {"form": form, "tokens": tokens_of(user), "made": made, "text": text}
    response = render(request, "api/tokens.html", context, status=422 if form.errors else 200)
    add_never_cache_headers(response)
    return response


@require_POST
def token_revoke(request: HttpRequest, number: int) -> HttpResponse:
    """End one of the user's own tokens."""
    token = get_object_or_404(tokens_of(request.user), pk=number)
    revoke(token, request.user)
    messages.success(request, f"{token.prefix} is revoked. Nothing works with it any more.")
    return redirect("tokens")
