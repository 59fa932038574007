"""Requests are in UTF-8: other codecs give texts that no database holds, or cannot read at all."""

import codecs
from collections.abc import Callable

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse


def utf8_only(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[..., HttpResponse]:
    def middleware(request: HttpRequest) -> HttpResponse:
        if codecs.lookup(request.encoding or "utf-8").name != "utf-8":
            raise BadRequest("A request must be in UTF-8.")
        return get_response(request)

    return middleware
