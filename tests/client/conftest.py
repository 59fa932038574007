"""Both clients, against the real site on loopback, and through a proxy that fails."""

import asyncio

import pytest
from fairjudge_client import AsyncFairJudge, FairJudge

from judging.projects.tokens import SCOPES, issue_token
from tests.client.proxy import Proxy


@pytest.fixture
def proxy(live_server):
    with Proxy(live_server.url) as proxy:
        yield proxy


@pytest.fixture
def media(settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path / "media"
    return settings.MEDIA_ROOT


@pytest.fixture
def token(transactional_db, outsider):
    """A token of somebody who may do everything."""
    _, text = issue_token(outsider, "test", list(SCOPES))
    return text


@pytest.fixture
def fj(proxy, token, media):
    with FairJudge(proxy.url, token) as client:
        yield client


@pytest.fixture
def with_async(proxy, token, media):
    """Runs `work(client)` in a loop, with an asynchronous client."""

    def run(work, **options):
        async def main():
            async with AsyncFairJudge(proxy.url, token, **options) as client:
                return await work(client)

        return asyncio.run(main())

    return run
