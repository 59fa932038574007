"""Leaving a round and coming back to it, from one's own list of rounds."""

from typing import cast

from django.contrib import messages
from django.contrib.auth.models import AbstractUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from annotation import leaving
from annotation.screen.hand import address_of, round_for
from annotation.screen.progress import where
from judging.errors import UserError


@require_POST
def annotate_leave(request: HttpRequest, signed: str) -> HttpResponse:
    round_, annotator = round_for(cast(AbstractUser, request.user), signed)
    try:
        leaving.leave_round(round_, annotator)
    except UserError as error:
        messages.error(request, str(error))
    else:
        messages.success(
            request,
            f"You left {where(round_)}. What you voted stays; what you had in hand went back to "
            "the others. You can come back.",
        )
    return redirect("annotate")


@require_POST
def annotate_return(request: HttpRequest, signed: str) -> HttpResponse:
    round_, annotator = round_for(cast(AbstractUser, request.user), signed)
    leaving.come_back(round_, annotator)
    return redirect(address_of(round_))
