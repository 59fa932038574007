"""`FairJudge` and `AsyncFairJudge`: the way to a site, with a token."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self, Unpack
from urllib.parse import urlsplit

from fairjudge_client import calls
from fairjudge_client import models as m
from fairjudge_client.api import Api
from fairjudge_client.resources import Project, Study
from fairjudge_client.session import MOST_ROWS, Session, pages
from fairjudge_client.steps import Async, F, Resource, Rows, Steps, Sync, method, rows_method
from fairjudge_client.tables import kind_of_frame
from fairjudge_client.transport import AwaitingSession, BlockingSession

URL_VARIABLE, TOKEN_VARIABLE = "FAIRJUDGE_URL", "FAIRJUDGE_TOKEN"


class Site(Resource[F]):
    """What both clients have in common.

    Attributes:
        api: Every operation of the interface by its own name.
    """

    def __init__(self, session: Session, url: str) -> None:
        super().__init__(session)
        self.url = url
        self.api: Api[F] = Api(session)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @method
    def me(self) -> Steps[m.Me]:
        """Return for whom the token acts, and what it may do."""
        return (yield from self._session.ask(calls.me()))

    @method
    def sizes(self, **study: Unpack[Study]) -> Steps[m.SizesOut]:
        """Say how many labels a study needs, from what you expect, such as `win_rate=0.55`."""
        return (yield from self._session.ask(calls.get_sizes(**study)))

    def project(self, slug: str) -> Project[F]:
        """Return a project by its slug. Nothing is asked yet."""
        return Project(self._session, slug)

    @method
    def create_project(
        self,
        name: str,
        *,
        slug: str = "",
        description: str = "",
        like: str = "",
        people: bool = False,
        idempotency_key: str | None = None,
    ) -> Steps[Project[F]]:
        """Create a project that you own.

        Args:
            slug: The name in addresses. Default: made of the name.
            like: A project that you own: its settings are copied.
            people: The people of that project join with their roles.
        """
        sent = calls.new_project(
            name=name,
            slug=slug,
            description=description,
            like=like,
            people=people,
            idempotency_key=idempotency_key,
        )
        return Project(self._session, (yield from self._session.ask(sent)).slug)

    @rows_method
    def projects(self) -> Rows[Project[F]]:
        """Iterate over the projects that the token opens, the oldest first."""
        return pages(
            self._session,
            lambda cursor: calls.list_projects(limit=MOST_ROWS, cursor=cursor),
            lambda info: Project[F](self._session, info.slug),
        )

    @rows_method
    def deletions(self) -> Rows[m.DeletionOut]:
        """Iterate over the projects that are being deleted by you, and how far that is."""
        return pages(
            self._session, lambda cursor: calls.list_deletions(limit=MOST_ROWS, cursor=cursor)
        )


class FairJudge(Site[Sync]):
    """A FairJudge site, for notebooks and programs without an event loop.

        fj = FairJudge("https://fairjudge.example.org", token)
        labels = fj.project("vicuna").labels()

    Threads may share it.

    Args:
        url: The site's address. Default: the variable FAIRJUDGE_URL.
        token: A token of the account page. Default: the variable FAIRJUDGE_TOKEN.
        timeout: Seconds without any progress after which a request counts as lost.
        retries: How often a request is repeated, at most.
        frames: Which DataFrames tables are: pandas, polars or arrow. Default: the first of them
            that is installed.
        progress: Whether waiting shows a line. Default: on a terminal and in a notebook.
    """

    _session: BlockingSession

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        retries: int = 5,
        frames: str | None = None,
        progress: bool | None = None,
    ) -> None:
        url, token = _checked(url, token, frames)
        options = {"timeout": timeout, "retries": retries, "frames": frames, "progress": progress}
        super().__init__(BlockingSession(url, token, **options), url)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncFairJudge(Site[Async]):
    """A FairJudge site, for programs with an event loop of asyncio.

        async with AsyncFairJudge("https://fairjudge.example.org", token) as fj:
            labels = await fj.project("vicuna").labels()

    It has the methods of `FairJudge`. Await what they return, and iterate with `async for`. The
    arguments are the same.
    """

    _session: AwaitingSession

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        retries: int = 5,
        frames: str | None = None,
        progress: bool | None = None,
    ) -> None:
        url, token = _checked(url, token, frames)
        options = {"timeout": timeout, "retries": retries, "frames": frames, "progress": progress}
        super().__init__(AwaitingSession(url, token, **options), url)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _checked(url: str | None, token: str | None, frames: str | None) -> tuple[str, str]:
    """Return URL and token as requests need them. No message repeats the token."""
    url = (url or os.environ.get(URL_VARIABLE, "")).strip()
    token = (token or os.environ.get(TOKEN_VARIABLE, "")).strip()
    if not url:
        raise ValueError(f"Name the site: FairJudge('https://…', token), or set {URL_VARIABLE}.")
    if not token:
        raise ValueError(
            f"Give a token: FairJudge(url, token), or set {TOKEN_VARIABLE}. Make one on your "
            "account page, or with “manage.py token”."
        )
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("The URL must begin with https:// or http:// and name a host.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("The URL must have no name, password, query or fragment in it.")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("The token has characters that no token has. Copy it again.")
    if frames is not None:
        kind_of_frame(frames)
    return f"{parts.scheme}://{parts.netloc}{_root(parts.path)}", token


def _root(path: str) -> str:
    """Return the path under which the site is. The address of the interface will do as well."""
    return path.rstrip("/").removesuffix("/api/v1").rstrip("/")
