"""What the site's pages tell caches: a page is for whoever asked, and no proxy keeps it for others.

`Vary: Cookie` alone does not say so: a cache that ignores it hands a project's texts to anybody.
Static files are answered before this and say for themselves how long they may be kept.
"""

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import patch_cache_control


def private_pages(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        patch_cache_control(response, private=True)
        return response

    return middleware
