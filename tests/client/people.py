"""A person who accepts an invitation in a browser, and votes on the pages until nothing is left."""

import re
import secrets
from typing import Self

import httpx

from tests.processes import eventually


class Person:
    """Votes for the response that `prefers` finds, or for a tie if it is in both or in neither."""

    def __init__(self, name: str, prefers: str) -> None:
        self.name, self.prefers = name, prefers
        self.n_votes = 0

    def __enter__(self) -> Self:
        self._http = httpx.Client(follow_redirects=True, timeout=60)
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def join(self, link: str) -> None:
        password = secrets.token_urlsafe(16)
        new = {"username": self.name, "password1": password, "password2": password}
        page = self._post(self._http.get(link), link, new)
        assert page.status_code == 200, page.text
        self._site = httpx.URL(link)

    def vote_on_everything(self) -> None:
        """Wait until there is a round, and vote on all of its items."""
        start = self._site.join("/annotate/")

        def link() -> re.Match[str] | None:
            return re.search(r'href="(/annotate/r/[^"]+)"', self._http.get(start).text)

        assert eventually(link, within=120)
        page = self._http.get(self._site.join(link()[1]))
        while token := re.search(r'data-token="([^"]+)"', page.text):
            sides = page.text.partition('class="sides"')[2].partition('id="asked"')[0]
            left, _, right = sides.partition('id="right"')
            choices = {(True, False): "left", (False, True): "right"}
            choice = choices.get((self.prefers in left, self.prefers in right), "tie")
            sent = {"token": token[1], "overall": choice, "seconds": "1"}
            page = self._post(page, self._site.join(f"/annotate/{token[1]}/vote"), sent)
            assert page.status_code == 200, page.text
            self.n_votes += 1

    def _post(
        self, page: httpx.Response, url: httpx.URL | str, sent: dict[str, str]
    ) -> httpx.Response:
        headers = {
            "X-CSRFToken": self._http.cookies.get("csrftoken", ""),
            "Referer": str(page.url),
        }
        return self._http.post(url, data=sent, headers=headers)
