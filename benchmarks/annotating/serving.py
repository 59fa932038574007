"""One person's requests, answered in this process: what they take of time and of processor."""

import re
import time
from collections import defaultdict
from typing import Any

WARM_UP = 20
_TOKEN = re.compile(r'data-token="([\w-]+)"')
Times = dict[str, list[tuple[float, float]]]


def serve(address: str, session: str, n: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds (by the wall, of the processor) of each request, the first ones left out."""
    from django.conf import settings
    from django.test import Client

    client = Client(headers={"host": settings.FAIRJUDGE_URL.rpartition("/")[2]})
    client.cookies[settings.SESSION_COOKIE_NAME] = session
    times: Times = defaultdict(list)

    def ask(kind: str, method: str, url: str, fields: dict[str, str] | None = None) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        answer = getattr(client, method)(url, fields, headers={"x-annotate": "1"})
        times[kind].append((time.perf_counter() - wall, time.process_time() - cpu))
        assert answer.status_code in (200, 204, 302), (url, answer.status_code, answer.content)
        return answer

    for _ in range(WARM_UP + n):
        item = ask("handed", "get", address).url
        token = item.rpartition("/")[2]
        ask("shown", "get", item)
        ask("submit", "post", f"{item}/vote", entry(token))
    item = ask("handed", "get", address).url
    for _ in range(WARM_UP + n):
        ahead = ask("fetch ahead", "get", f"{item}/ahead").content.decode()
        token = item.rpartition("/")[2]
        ask("draft", "post", f"{item}/draft", entry(token))
        ask("submit", "post", f"{item}/vote", entry(token))
        item = "/annotate/" + token_in(ahead)
    both = zip(times["handed"], times.pop("shown"), strict=False)
    times["next item"] = [(a[0] + b[0], a[1] + b[1]) for a, b in both]
    del times["handed"]
    return {kind: taken[WARM_UP:] for kind, taken in times.items()}


def token_in(html: str) -> str:
    found = _TOKEN.search(html)
    assert found is not None, html[:200]
    return found.group(1)


def entry(token: str) -> dict[str, str]:
    return {"token": token, "overall": "left", "comment": "", "seconds": "1.5"}
