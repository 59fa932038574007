"""Fifty people in a process of their own: each fetches ahead, thinks, keeps a draft, votes.

python -m benchmarks.annotating.annotators PORT SECONDS PACE < built.json
"""

import http.client
import json
import sys
import threading
import time
from collections import defaultdict
from random import Random
from urllib.parse import urlencode

from benchmarks.annotating.serving import entry, token_in

_CSRF = "c" * 32


class Person(threading.Thread):
    """Keeps the seconds of each request, and every answer that was not the one expected."""

    def __init__(self, port: int, session: str, address: str, until: float, pace: float) -> None:
        super().__init__()
        self.site = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.cookie = f"sessionid={session}; csrftoken={_CSRF}"
        self.address, self.until, self.pace = address, until, pace
        self.chance = Random(session)
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.errors: list[str] = []

    def run(self) -> None:
        try:
            self.work()
        except (OSError, AssertionError, http.client.HTTPException) as error:
            self.errors.append(repr(error)[:500])
        self.site.close()

    def work(self) -> None:
        time.sleep(self.chance.random() * self.pace)
        item = self.ask("next item", "GET", self.address)[1]
        self.ask("next item", "GET", item)
        while time.monotonic() < self.until:
            ahead = self.ask("fetch ahead", "GET", f"{item}/ahead")[0]
            time.sleep(self.chance.expovariate(1 / self.pace) if self.pace else 0)
            fields = entry(item.rpartition("/")[2])
            self.ask("draft", "POST", f"{item}/draft", fields)
            self.ask("submit", "POST", f"{item}/vote", fields)
            item = "/annotate/" + token_in(ahead)

    def ask(
        self, kind: str, method: str, url: str, fields: dict[str, str] | None = None
    ) -> tuple[str, str]:
        headers = {"Cookie": self.cookie, "X-CSRFToken": _CSRF, "X-Annotate": "1"}
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = urlencode(fields) if fields else None
        began = time.perf_counter()
        try:
            self.site.request(method, url, body, headers)
            answer = self.site.getresponse()
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            # A connection that was idle for long was closed, as a browser knows it too.
            self.site.close()
            self.site.request(method, url, body, headers)
            answer = self.site.getresponse()
        text = answer.read().decode()
        self.seconds[kind].append(time.perf_counter() - began)
        if answer.status not in (200, 204, 302):
            raise AssertionError(f"{method} {url} was answered {answer.status}: {text[:300]}")
        return text, answer.headers.get("Location", "")


def main() -> None:
    port, seconds, pace = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    built = json.load(sys.stdin)
    began = time.monotonic()
    people = [
        Person(port, session, built["address"], began + seconds, pace)
        for session in built["people"]
    ]
    for person in people:
        person.start()
    taken: dict[str, list[float]] = defaultdict(list)
    errors: list[str] = []
    for person in people:
        person.join()
        errors += person.errors
        for kind, each in person.seconds.items():
            taken[kind] += each
    found = {"seconds": taken, "errors": errors, "span": time.monotonic() - began}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
