"""Both clients, against the real site on loopback, and through a proxy that fails."""

import asyncio
import os
import shutil
from dataclasses import dataclass

import pytest
from fairjudge_client import AsyncFairJudge, FairJudge

from judging.projects.tokens import SCOPES, issue_token
from tests.client.proxy import Proxy
from tests.conftest import SETTINGS
from tests.fairjudge_site.test_runall import RunAll
from tests.launcher import Launcher
from tests.loopback import BiasedJudge, LoopbackServer


@pytest.fixture
def proxy(live_server):
    with Proxy(live_server.url) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Waits without a `Retry-After` are short here, and so are those for long work."""
    monkeypatch.setattr("fairjudge_client.session.FIRST_PAUSE", 0.02)
    monkeypatch.setattr("fairjudge_client.waiting.FIRST", 0.05)
    for module in ("resources", "session"):
        monkeypatch.setattr(f"fairjudge_client.{module}.TABLE_PAUSE", 0.02)


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


@dataclass(frozen=True)
class WorkingSite:
    """A site with its workers, each a process, and a judge on loopback."""

    url: str
    token: str
    judge: LoopbackServer


@pytest.fixture(scope="package")
def working_site(new_database, tmp_path_factory):
    folder = tmp_path_factory.mktemp("working-site")
    data = folder / "data"
    data.mkdir()
    shutil.copy(new_database, data)
    with LoopbackServer(judge=BiasedJudge(position_bias=2.0, seed=4)) as judge:
        environment = {
            **os.environ, "FAIRJUDGE_DATA": str(data), "DJANGO_SETTINGS_MODULE": SETTINGS,
            "DJANGO_ALLOW_ASYNC_UNSAFE": "", "FAIRJUDGE_MAX_UPLOAD_MB": "5",
            "FAIRJUDGE_WEB_PROCESSES": "1",
            "OPENAI_BASE_URL": judge.base_url,
        }  # fmt: skip
        with Launcher(environment) as launcher:
            launcher.run("create_user", "kim", "--researcher")
            token = launcher.run("token", "kim", "--scopes", "read,write,spend").stdout.strip()
        site = RunAll(environment, "--only", "web", "--only", "runs", "--only", "quick")
        try:
            site.wait_until_up()
            yield WorkingSite(site.url, token, judge)
        finally:
            site.end()
