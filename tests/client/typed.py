"""What type checkers know of both clients. `make check` checks this module; nothing runs it."""

from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, assert_type

from fairjudge_client import (
    Async,
    AsyncFairJudge,
    FairJudge,
    Import,
    Project,
    Round,
    Run,
    Sync,
    Webhook,
)
from fairjudge_client import models as m

Verdict = Literal["pass", "fail", "inconclusive"]


def blocking(fj: FairJudge) -> None:
    project = fj.create_project("New", slug="new")
    assert_type(project, Project[Sync])
    assert_type(fj.me(), m.Me)
    assert_type(fj.projects(), Iterator[Project[Sync]])
    assert_type(project.examples.upsert([{"question": "Q?"}]).wait(timeout=3), Import[Sync])
    assert_type(project.runs.estimate(k=3, budget_usd="2.50").usd, Decimal | None)
    run = project.runs.start(k=3, price={"prompt": 1, "completion": 2})
    assert_type(run, Run[Sync])
    assert_type(run.wait(), Run[Sync])
    assert_type(run.report(), dict[str, Any])
    assert_type(project.rounds.open(beta=20).wait(), Round[Sync])
    assert_type(project.examples.list(label="win"), Iterator[m.ExampleOut])
    assert_type(project.rows("labels", run), Iterator[dict[str, Any]])
    assert_type(project.save("labels", "labels.csv"), Path)
    assert_type(fj.api.get_run("new", 1), m.ProgressOut)
    assert_type(fj.api.list_runs("new").items, list[m.RunOut])
    assert_type(project.update(wage_usd=20), m.SettingsOut)
    assert_type(project.webhooks.add(url="https://a.example").rotate(), Webhook[Sync])
    assert_type(run.choose_primary(), Run[Sync])
    assert_type(project.judgments.import_([{}], name="a"), Run[Sync])
    assert_type(project.gate("accuracy>=0.8", run=run).verdict, Verdict)
    assert_type(project.compare(1, run).by_category, list[m.CategoryOut])
    # A setting that isn't there, a value of the wrong type, and one that is missing.
    project.runs.start(budget=3)  # type: ignore[call-arg]
    project.labels(colour="red")  # type: ignore[call-arg]
    project.examples.list(label="lost")  # type: ignore[arg-type]
    project.rounds.get(1).decide(label="win")  # type: ignore[call-arg]


async def awaiting(fj: AsyncFairJudge) -> None:
    project = await fj.create_project("New")
    assert_type(project, Project[Async])
    assert_type(fj.project("new"), Project[Async])
    assert_type(fj.projects(), AsyncIterator[Project[Async]])
    run = await project.runs.start(k=3)
    assert_type(run, Run[Async])
    assert_type(await run.wait(), Run[Async])
    assert_type((await project.runs.estimate()).calls, int)
    assert_type(await fj.api.get_run("new", 1), m.ProgressOut)
    assert_type(project.webhooks.list(), AsyncIterator[Webhook[Async]])
    assert_type(await run.gate("accuracy>=0.8"), m.GateOut)
    async for example in project.examples.list():
        assert_type(example, m.ExampleOut)
    project.runs.start(budget=3)  # type: ignore[call-arg]
