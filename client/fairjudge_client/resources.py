"""Projects and what is in them: examples, runs, rounds, people, tables, reports and gates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Literal, NotRequired, TypedDict, Unpack

from fairjudge_client import calls
from fairjudge_client import models as m
from fairjudge_client.errors import FairJudgeError, NotFinished, Unreachable
from fairjudge_client.progress import Progress, in_words
from fairjudge_client.session import MOST_ROWS, Session, pages
from fairjudge_client.steps import (
    Call,
    F,
    Give,
    Lost,
    Pause,
    Read,
    Resource,
    Rows,
    Steps,
    Work,
    gathered,
    method,
    rows_method,
)
from fairjudge_client.tables import Columns, frame_of_parquet, kind_of_frame
from fairjudge_client.waiting import waited
from fairjudge_client.webhooks import Webhooks

Table = Literal["labels", "votes", "samples", "preferences", "criteria"]
Format = Literal["jsonl", "parquet"]
_SUFFIXES: dict[str, Literal["csv", "jsonl"]] = {".csv": "csv", ".jsonl": "jsonl"}
_PARQUET = ".parquet"
_PARQUET_ENDS = b"PAR1"


class Filters(TypedDict):
    """Only rows that have these values. A table without such a column refuses it."""

    external_id: NotRequired[str]
    category: NotRequired[str]
    final_label: NotRequired[str]
    label: NotRequired[str]
    source: NotRequired[str]
    selection: NotRequired[str]
    annotator: NotRequired[str]
    status: NotRequired[str]
    where: NotRequired[list[str]]
    """Only examples that fit, such as `["category=math", "tag=hard"]`."""


class Import(Resource[F]):
    """Rows that a worker writes. They are seen once all of them are written."""

    def __init__(self, session: Session, project: str, info: m.ImportOut) -> None:
        super().__init__(session)
        self.project, self.number, self.info = project, info.number, info

    def __repr__(self) -> str:
        return f"<Import {self.number} of {self.project}: {self.state}>"

    @property
    def state(self) -> str:
        return self.info.state

    @method
    def refresh(self) -> Steps[Import[F]]:
        """Ask how far it is."""
        self.info = yield from self._session.ask(calls.get_import(self.project, self.number))
        return self

    @method
    def wait(self, timeout: float | None = None, progress: bool | None = None) -> Steps[Import[F]]:
        """Wait until all rows are written.

        Raises:
            NotFinished: It failed or was undone.
            WaitTimeout: It isn't done after `timeout` seconds.
        """
        self.info = yield from waited(
            self._session,
            calls.get_import(self.project, self.number),
            f"import {self.number}",
            has_ended=lambda info: info.state in ("done", "failed", "undone"),
            show=lambda line, info: line.show(
                f"import {info.number}", info.written + info.known, info.rows, info.state
            ),
            timeout=timeout,
            progress=progress,
        )
        if self.state != "done":
            raise _other_end(f"Import {self.number}", self.state, self.info.reason)
        return self


class Examples(Resource[F]):
    """The pairs of a project."""

    def __init__(self, session: Session, project: str) -> None:
        super().__init__(session)
        self.project = project

    @method
    def upsert(
        self,
        rows: Any,
        *,
        skip_invalid: bool = False,
        design: str = "",
        seed: int = 0,
        idempotency_key: str | None = None,
    ) -> Steps[Import[F]]:
        """Add examples by their IDs. What the project has already stays as it is.

        Args:
            rows: A DataFrame, dictionaries (also an iterator of them), or the path of a CSV or
                JSONL file. The columns are those that FairJudge imports.
            skip_invalid: Leave out rows that can't be imported. Otherwise one of them refuses all.
            design: Which pairs to make of rows with the responses of several models: "all",
                "baseline=MODEL", "random=2" or "blocks=2".
            seed: Of a random design.

        Returns:
            The import. Wait for it: a worker writes the rows.

        Raises:
            Invalid: `errors` names each problem by line. Nothing was imported.
        """
        sent = calls.upsert_examples(
            self.project, rows, skip_invalid=skip_invalid, design=design, seed=seed,
            idempotency_key=idempotency_key,
        )  # fmt: skip
        return Import(self._session, self.project, (yield from self._session.ask(sent)))

    @method
    def estimate(
        self,
        rows: Any,
        *,
        skip_invalid: bool = False,
        design: str = "",
        seed: int = 0,
        run: int | None = None,
    ) -> Steps[m.PairsOut]:
        """Say what `upsert` would add, and what a judge would need for it. Nothing is written.

        Calls and cost are those of `run`, by default the primary run, for its own examples.
        """
        sent = calls.estimate_examples(
            self.project, rows, skip_invalid=skip_invalid, design=design, seed=seed, run=run
        )
        return (yield from self._session.ask(sent))

    @rows_method
    def list(
        self,
        *,
        external_id: str = "",
        category: str = "",
        tag: str = "",
        model: str = "",
        label: Literal["", "win", "tie", "lose", "none"] = "",
    ) -> Rows[m.ExampleOut]:
        """Iterate over examples in import order. `label` is the gold label."""
        return pages(
            self._session,
            lambda cursor: calls.list_examples(
                self.project, limit=MOST_ROWS, cursor=cursor, external_id=external_id,
                category=category, tag=tag, model=model, label=label,
            ),
        )  # fmt: skip

    @method
    def tag(self, **change: Unpack[m.TagIn]) -> Steps[m.TagChangeOut]:
        """Give a tag to the examples that are chosen; to all of them if none are."""
        return (yield from self._session.ask(calls.tag_examples(self.project, **change)))

    @method
    def untag(self, **change: Unpack[m.TagIn]) -> Steps[m.TagChangeOut]:
        """Take a tag from the examples that are chosen; from all of them if none are."""
        change["add"] = False
        return (yield from self._session.ask(calls.tag_examples(self.project, **change)))

    @method
    def undo_tags(self, change: int) -> Steps[m.TagChangeOut]:
        """Take a change of tags back, by its number."""
        return (yield from self._session.ask(calls.undo_tags(self.project, change)))

    @method
    def get_import(self, number: int) -> Steps[Import[F]]:
        """Return an earlier import by its number."""
        info = yield from self._session.ask(calls.get_import(self.project, number))
        return Import(self._session, self.project, info)


class Run(Resource[F]):
    """One judge, asked about every example of a project."""

    def __init__(self, session: Session, project: str, info: m.RunOut | m.ProgressOut) -> None:
        super().__init__(session)
        self.project, self.number, self.info = project, info.number, info

    def __repr__(self) -> str:
        return f"<Run {self.number} of {self.project}: {self.state}>"

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def state(self) -> str:
        return self.info.state

    @method
    def progress(self) -> Steps[m.ProgressOut]:
        """Return how far the run is and what it has cost."""
        found = yield from self._session.ask(calls.get_run(self.project, self.number))
        self.info = found
        return found

    @method
    def wait(self, timeout: float | None = None, progress: bool | None = None) -> Steps[Run[F]]:
        """Wait until every answer of the judge is recorded.

        Interrupting it doesn't stop the run: it goes on by itself, and you can wait again.

        Raises:
            NotFinished: It failed, or was paused or cancelled.
            WaitTimeout: It isn't done after `timeout` seconds.
        """
        self.info = yield from waited(
            self._session,
            calls.get_run(self.project, self.number),
            f"run {self.number}",
            has_ended=lambda info: info.state in ("done", "failed", "paused", "cancelled"),
            show=_show_run,
            timeout=timeout,
            progress=progress,
        )
        if self.state != "done":
            raise _other_end(f"Run {self.number}", self.state, self.info.reason)
        return self

    @method
    def pause(self) -> Steps[Run[F]]:
        """Send nothing more. Answers on their way are still recorded."""
        return (yield from self._changed(calls.pause_run(self.project, self.number)))

    @method
    def cancel(self) -> Steps[Run[F]]:
        """Stop the run. Its answers are kept, and it can be resumed."""
        return (yield from self._changed(calls.cancel_run(self.project, self.number)))

    @method
    def resume(self, **settings: Unpack[m.ResumeIn]) -> Steps[Run[F]]:
        """Ask for what has no answer yet, which may cost money."""
        return (yield from self._changed(calls.resume_run(self.project, self.number, **settings)))

    @method
    def raise_budget(self, **settings: Unpack[m.BudgetIn]) -> Steps[Run[F]]:
        """Change the budget, which may cost money. Resume a run that paused for it."""
        call = calls.raise_budget(self.project, self.number, **settings)
        return (yield from self._changed(call))

    @method
    def choose_primary(self) -> Steps[Run[F]]:
        """Make this the project's primary run, by which labels are merged."""
        return (yield from self._changed(calls.choose_primary(self.project, self.number)))

    @method
    def reparse(self) -> Steps[Run[F]]:
        """Have a worker read the stored replies again by today's parser. No request is sent."""
        return (yield from self._changed(calls.reparse_run(self.project, self.number)))

    @method
    def report(self, timeout: float | None = None) -> Steps[dict[str, Any]]:
        """Return the report. Wait while the site computes the figures of a large project."""
        wanted = calls.get_report(self.project, self.number)
        return (yield from self._session.ask(wanted, within=timeout))

    @method
    def certificate(self, timeout: float | None = None) -> Steps[dict[str, Any]]:
        """Return what the audit certifies."""
        wanted = calls.get_certificate(self.project, self.number)
        return (yield from self._session.ask(wanted, within=timeout))

    @method
    def gate(
        self,
        *require: str,
        votes: int = 3,
        restart: bool = False,
        open_round: bool = False,
        idempotency_key: str | None = None,
    ) -> Steps[m.GateOut]:
        """Say by intervals if the run keeps bounds. See `Project.gate`."""
        sent = calls.gate(
            self.project, require=[*require], run=self.number, votes=votes, restart=restart,
            open_round=open_round, idempotency_key=idempotency_key,
        )  # fmt: skip
        return (yield from self._session.ask(sent))

    def _changed(self, call: Call[m.RunOut]) -> Steps[Run[F]]:
        self.info = yield from self._session.ask(call)
        return self


class Runs(Resource[F]):
    """The runs of a project."""

    def __init__(self, session: Session, project: str) -> None:
        super().__init__(session)
        self.project = project

    @method
    def estimate(self, **settings: Unpack[m.RunIn]) -> Steps[m.EstimateOut]:
        """Estimate what such a run costs. Nothing is started."""
        return (yield from self._session.ask(calls.estimate(self.project, **settings)))

    @method
    def start(
        self, *, idempotency_key: str | None = None, **settings: Unpack[m.RunIn]
    ) -> Steps[Run[F]]:
        """Start a run, which may cost money. A worker asks the judge.

        With an `idempotency_key` of your own, running a notebook's cell again within 24 hours
        starts nothing new.
        """
        sent = calls.new_run(self.project, idempotency_key=idempotency_key, **settings)
        return Run(self._session, self.project, (yield from self._session.ask(sent)))

    @method
    def get(self, number: int) -> Steps[Run[F]]:
        """Return a run by its number."""
        info = yield from self._session.ask(calls.get_run(self.project, number))
        return Run(self._session, self.project, info)

    @rows_method
    def list(self) -> Rows[Run[F]]:
        """Iterate over the runs, the oldest first."""
        return pages(
            self._session,
            lambda cursor: calls.list_runs(self.project, limit=MOST_ROWS, cursor=cursor),
            lambda info: Run(self._session, self.project, info),
        )


class Round(Resource[F]):
    """Examples that people are asked about."""

    def __init__(self, session: Session, project: str, info: m.RoundOut | m.StandingOut) -> None:
        super().__init__(session)
        self.project, self.number, self.info = project, info.number, info

    def __repr__(self) -> str:
        return f"<Round {self.number} of {self.project}: {self.state}>"

    @property
    def state(self) -> str:
        return self.info.state

    @method
    def progress(self) -> Steps[m.StandingOut]:
        """Return how far people are."""
        found = yield from self._session.ask(calls.get_round(self.project, self.number))
        self.info = found
        return found

    @method
    def wait(self, timeout: float | None = None, progress: bool | None = None) -> Steps[Round[F]]:
        """Wait until people have given all votes, or the round is closed.

        Items that votes didn't settle may still need a decision: `info.undecided` counts them.

        Raises:
            NotFinished: It was paused.
            WaitTimeout: Votes are missing after `timeout` seconds.
        """
        self.info = yield from waited(
            self._session,
            calls.get_round(self.project, self.number),
            f"round {self.number}",
            has_ended=lambda info: info.state in ("paused", "closed") or _is_complete(info),
            show=_show_round,
            timeout=timeout,
            progress=progress,
        )
        if self.state == "paused" and not _is_complete(self.info):
            raise _other_end(f"Round {self.number}", self.state, "")
        return self

    @method
    def pause(self) -> Steps[Round[F]]:
        """Hand out no new items."""
        return (yield from self._changed(calls.pause_round(self.project, self.number)))

    @method
    def resume(self) -> Steps[Round[F]]:
        """Hand out items again."""
        return (yield from self._changed(calls.resume_round(self.project, self.number)))

    @method
    def close(self) -> Steps[Round[F]]:
        """End the round and settle its items."""
        return (yield from self._changed(calls.close_round(self.project, self.number)))

    @method
    def reopen(self) -> Steps[Round[F]]:
        """Go on with the items that didn't get all their votes."""
        return (yield from self._changed(calls.reopen_round(self.project, self.number)))

    @method
    def extend(self, **settings: Unpack[m.ExtendIn]) -> Steps[Round[F]]:
        """Select up to a larger cut: `beta` is in percent of all examples."""
        return (yield from self._changed(calls.extend_round(self.project, self.number, **settings)))

    @method
    def raise_votes(self, **settings: Unpack[m.VotesIn]) -> Steps[Round[F]]:
        """Ask for more votes per item."""
        return (yield from self._changed(calls.raise_votes(self.project, self.number, **settings)))

    @method
    def assign(self, **people: Unpack[m.PeopleIn]) -> Steps[Round[F]]:
        """Choose who labels, and how much each. Votes that others gave stay."""
        return (yield from self._changed(calls.assign_people(self.project, self.number, **people)))

    @method
    def put_aside(self, annotator: int, **why: Unpack[m.AsideIn]) -> Steps[m.PersonOut]:
        """Let the votes that a person gave in this round no longer count: `reason`, `stop`."""
        sent = calls.put_aside(self.project, self.number, annotator, **why)
        return (yield from self._session.ask(sent))

    @method
    def count_again(self, annotator: int) -> Steps[m.PersonOut]:
        """Count a person's votes again, as far as their pairs still need votes."""
        sent = calls.count_again(self.project, self.number, annotator)
        return (yield from self._session.ask(sent))

    @method
    def release(self, annotator: int) -> Steps[m.PersonOut]:
        """Let a person who was stopped or paused label in this round again."""
        sent = calls.release_person(self.project, self.number, annotator)
        return (yield from self._session.ask(sent))

    @method
    def decide(self, **decision: Unpack[m.DecisionIn]) -> Steps[m.DecisionOut]:
        """Decide about an item that votes did not settle."""
        sent = calls.new_decision(self.project, self.number, **decision)
        return (yield from self._session.ask(sent))

    def _changed(self, call: Call[m.RoundOut]) -> Steps[Round[F]]:
        self.info = yield from self._session.ask(call)
        return self


class Rounds(Resource[F]):
    """The rounds of a project."""

    def __init__(self, session: Session, project: str) -> None:
        super().__init__(session)
        self.project = project

    @method
    def plan(self, **settings: Unpack[m.RoundIn]) -> Steps[m.PlanOut]:
        """Return what a round with these settings selects and costs. Nothing is opened."""
        return (yield from self._session.ask(calls.plan_round(self.project, **settings)))

    @method
    def open(
        self, *, idempotency_key: str | None = None, **settings: Unpack[m.RoundIn]
    ) -> Steps[Round[F]]:
        """Open a round. Give exactly one of `beta`, `budget_usd` and `everything`."""
        sent = calls.new_round(self.project, idempotency_key=idempotency_key, **settings)
        return Round(self._session, self.project, (yield from self._session.ask(sent)))

    @method
    def get(self, number: int) -> Steps[Round[F]]:
        """Return a round by its number."""
        info = yield from self._session.ask(calls.get_round(self.project, number))
        return Round(self._session, self.project, info)

    @rows_method
    def list(self) -> Rows[Round[F]]:
        """Iterate over the rounds, the oldest first."""
        return pages(
            self._session,
            lambda cursor: calls.list_rounds(self.project, limit=MOST_ROWS, cursor=cursor),
            lambda info: Round(self._session, self.project, info),
        )


class People(Resource[F]):
    """Who labels in a project, and the links that invite others. It needs the role of an owner."""

    def __init__(self, session: Session, project: str) -> None:
        super().__init__(session)
        self.project = project

    @rows_method
    def list(self) -> Rows[m.AnnotatorOut]:
        """Iterate over who labels, and whose votes were imported."""
        return pages(
            self._session,
            lambda cursor: calls.list_annotators(self.project, limit=MOST_ROWS, cursor=cursor),
        )

    @method
    def invite(self, **terms: Unpack[m.InvitationIn]) -> Steps[m.InvitationOut]:
        """Make a link that lets people join. Anybody who has it can."""
        return (yield from self._session.ask(calls.new_invitation(self.project, **terms)))

    @rows_method
    def invitations(self) -> Rows[m.InvitationOut]:
        """Iterate over the invitations whose link still works."""
        return pages(
            self._session,
            lambda cursor: calls.list_invitations(self.project, limit=MOST_ROWS, cursor=cursor),
        )

    @method
    def withdraw(self, invitation: int) -> Steps[m.InvitationOut]:
        """Withdraw a link by its `id`. People who joined by it stay."""
        return (yield from self._session.ask(calls.withdraw_invitation(self.project, invitation)))


class Judgments(Resource[F]):
    """Judgments that were given elsewhere."""

    def __init__(self, session: Session, project: str) -> None:
        super().__init__(session)
        self.project = project

    @method
    def import_(
        self,
        rows: Any,
        *,
        name: str = "",
        labels: str = "",
        sheet: str = "",
        idempotency_key: str | None = None,
    ) -> Steps[Run[F]]:
        """Make a run of recorded judgments. No judge is asked.

        Args:
            rows: As `examples.upsert` takes them.
            name: The run's name. After a crash in the middle, send the same rows under it again.
            labels: What codes mean, such as 1=win,2=lose.
            sheet: Of a workbook. Default: the first one.
        """
        sent = calls.new_judgments(
            self.project, rows, name=name, labels=labels, sheet=sheet,
            idempotency_key=idempotency_key,
        )  # fmt: skip
        return Run(self._session, self.project, (yield from self._session.ask(sent)))


class Scores(Resource[F]):
    """People's scores of single responses."""

    def __init__(self, session: Session, project: str) -> None:
        super().__init__(session)
        self.project = project

    @method
    def import_(
        self, rows: Any, *, rater: str = "", sheet: str = "", idempotency_key: str | None = None
    ) -> Steps[m.ScoresOut]:
        """Import scores: all of them or none.

        Args:
            rows: As `examples.upsert` takes them.
            rater: Who scored, if no column says so.
            sheet: Of a workbook. Default: the first one.
        """
        sent = calls.new_scores(
            self.project, rows, rater=rater, sheet=sheet, idempotency_key=idempotency_key
        )
        return (yield from self._session.ask(sent))


class Project(Resource[F]):
    """A project by its slug. Nothing is asked until you call a method."""

    def __init__(self, session: Session, slug: str) -> None:
        super().__init__(session)
        self.slug = slug
        self.examples: Examples[F] = Examples(session, slug)
        self.runs: Runs[F] = Runs(session, slug)
        self.rounds: Rounds[F] = Rounds(session, slug)
        self.people: People[F] = People(session, slug)
        self.judgments: Judgments[F] = Judgments(session, slug)
        self.scores: Scores[F] = Scores(session, slug)
        self.webhooks: Webhooks[F] = Webhooks(session, slug)

    def __repr__(self) -> str:
        return f"<Project {self.slug}>"

    @method
    def info(self) -> Steps[m.ProjectOut]:
        """Return the project's name, your role, and how many examples it has."""
        return (yield from self._session.ask(calls.get_project(self.slug)))

    @method
    def settings(self) -> Steps[m.SettingsOut]:
        """Return what people are asked, how votes are merged, and what a vote costs."""
        return (yield from self._session.ask(calls.get_settings(self.slug)))

    @method
    def update(self, **settings: Unpack[m.SettingsIn]) -> Steps[m.SettingsOut]:
        """Change some settings. What you leave out stays as it is. It needs the role of an owner.

        Open rounds keep what they asked.
        """
        return (yield from self._session.ask(calls.update_settings(self.slug, **settings)))

    # Tables

    @method
    def labels(
        self,
        run: int | Run[F] | None = None,
        *,
        frame: str | None = None,
        format: Format = "jsonl",  # noqa: A002 the name that files have elsewhere
        names: bool = False,
        **filters: Unpack[Filters],
    ) -> Steps[Any]:
        """Return the final labels as a DataFrame, one row per example.

        Args:
            run: A run or its number. Default: the project's primary run.
            frame: pandas, polars or arrow. Default: what the client was made with, or else the
                first of them that is installed.
            format: How rows come. `parquet` keeps the types of the site's columns, such as
                decimal money; it needs pyarrow here, and the extra `arrow` on the site.
            names: Names of people instead of pseudonyms.
            filters: Only rows that have these values, such as `source="none"`.
        """
        return (yield from self._frame("labels", run, frame, format, names, filters))

    @method
    def votes(
        self,
        *,
        frame: str | None = None,
        format: Format = "jsonl",  # noqa: A002 the name that files have elsewhere
        names: bool = False,
        **filters: Unpack[Filters],
    ) -> Steps[Any]:
        """Return all votes as a DataFrame, one row per vote. See `labels`."""
        return (yield from self._frame("votes", None, frame, format, names, filters))

    @method
    def samples(
        self,
        run: int | Run[F] | None = None,
        *,
        frame: str | None = None,
        format: Format = "jsonl",  # noqa: A002 the name that files have elsewhere
        **filters: Unpack[Filters],
    ) -> Steps[Any]:
        """Return what the judge answered as a DataFrame, one row per sample. See `labels`."""
        return (yield from self._frame("samples", run, frame, format, False, filters))

    @method
    def preferences(
        self,
        run: int | Run[F] | None = None,
        *,
        frame: str | None = None,
        format: Format = "jsonl",  # noqa: A002 the name that files have elsewhere
        **filters: Unpack[Filters],
    ) -> Steps[Any]:
        """Return chosen and rejected responses as a DataFrame, for training. See `labels`."""
        return (yield from self._frame("preferences", run, frame, format, False, filters))

    @method
    def head(
        self,
        what: Table,
        n: int = 5,
        run: int | Run[F] | None = None,
        *,
        frame: str | None = None,
        names: bool = False,
        **filters: Unpack[Filters],
    ) -> Steps[Any]:
        """Return the first rows of a table as a DataFrame. It doesn't count as an export."""
        kind = kind_of_frame(frame or self._session.frames)
        page = yield from self._session.ask(
            calls.list_rows(self.slug, what, run=_number(run), names=names, limit=n, **filters)
        )
        columns = Columns()
        columns.add(page.items)
        return columns.frame(kind)

    @rows_method
    def rows(
        self,
        what: Table,
        run: int | Run[F] | None = None,
        *,
        names: bool = False,
        **filters: Unpack[Filters],
    ) -> Rows[dict[str, Any]]:
        """Iterate over a table as dictionaries while it comes, in little memory.

        Numbers of which no digit may be lost are text.
        """
        return self._streamed(what, run, names, filters)

    @method
    def save(
        self,
        what: Table,
        path: str | Path,
        run: int | Run[F] | None = None,
        *,
        names: bool = False,
        escape: bool = True,
        **filters: Unpack[Filters],
    ) -> Steps[Path]:
        """Write a table to a .csv, .jsonl or .parquet file, in little memory.

        No partial file is left.

        Args:
            escape: Protect spreadsheets from cells that they would compute, in CSV.
            filters: Only rows that have these values. See `labels`.
        """
        target = Path(path)
        suffix = target.suffix.lower()
        allowed = [".jsonl", _PARQUET] if what == "preferences" else [*_SUFFIXES, _PARQUET]
        if suffix not in allowed:
            *first, last = allowed
            ends = f"{', '.join(first)} or {last}"
            raise ValueError(f"{target.name} doesn't end with {ends}. Nothing was written.")
        if suffix == _PARQUET:
            call = calls.get_parquet(self.slug, what, run=_number(run), names=names, **filters)
        else:
            call = calls.get_table(
                self.slug, what, _SUFFIXES[suffix], run=_number(run), names=names, escape=escape,
                **filters,
            )  # fmt: skip
        partial = target.with_name(f"{target.name}.part")
        try:
            with partial.open("wb") as file:
                yield from self._written(call, file)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
        return target

    @rows_method
    def exports(self) -> Rows[m.ExportOut]:
        """Iterate over what was exported, the oldest first, also by pages and commands."""
        return pages(
            self._session,
            lambda cursor: calls.list_exports(self.slug, limit=MOST_ROWS, cursor=cursor),
        )

    @method
    def import_votes(
        self,
        rows: Any,
        *,
        annotator: str = "",
        protocol: str = "",
        labels: str = "",
        sheet: str = "",
        idempotency_key: str | None = None,
    ) -> Steps[m.VotesOut]:
        """Import votes that were given elsewhere: all of them or none.

        Args:
            rows: As `examples.upsert` takes them.
            annotator: Who voted, if no column says so.
            labels: What codes mean, such as 1=win,2=lose.
            sheet: Of a workbook. Default: the first one.
        """
        sent = calls.new_votes(
            self.slug, rows, annotator=annotator, protocol=protocol, labels=labels, sheet=sheet,
            idempotency_key=idempotency_key,
        )  # fmt: skip
        return (yield from self._session.ask(sent))

    # Reports

    @method
    def report(
        self, run: int | Run[F] | None = None, timeout: float | None = None
    ) -> Steps[dict[str, Any]]:
        """Return the report of a run; default: of the project's primary run."""
        number = yield from self._number_of(run)
        wanted = calls.get_report(self.slug, number)
        return (yield from self._session.ask(wanted, within=timeout))

    @method
    def certificate(
        self, run: int | Run[F] | None = None, timeout: float | None = None
    ) -> Steps[dict[str, Any]]:
        """Return what the audit certifies about a run; default: the project's primary run."""
        number = yield from self._number_of(run)
        wanted = calls.get_certificate(self.slug, number)
        return (yield from self._session.ask(wanted, within=timeout))

    @method
    def people_report(self) -> Steps[dict[str, Any]]:
        """Return what people alone say, which needs no run and shows nothing of a judge."""
        return (yield from self._session.ask(calls.get_people_report(self.slug)))

    # Gates

    @method
    def gate(
        self,
        *require: str,
        run: int | Run[F] | None = None,
        votes: int = 3,
        restart: bool = False,
        open_round: bool = False,
        idempotency_key: str | None = None,
    ) -> Steps[m.GateOut]:
        """Say by intervals if a run keeps bounds: `verdict` is pass, fail or inconclusive.

        A look at new data goes on record and spends its part of one error, so that you may look
        after every batch of votes. `needed` says what it takes if the verdict is inconclusive.

        Args:
            require: Such as "accuracy>=0.85" and "win_rate(new)>=0.5".
            run: A run or its number. Default: the project's primary run.
            votes: Votes per example of a round that would decide.
            restart: If examples changed since the last look, begin with the present ones.
            open_round: If the verdict is inconclusive, open the round that decides.
        """
        sent = calls.gate(
            self.slug, require=[*require], run=_number(run), votes=votes, restart=restart,
            open_round=open_round, idempotency_key=idempotency_key,
        )  # fmt: skip
        return (yield from self._session.ask(sent))

    @method
    def compare(
        self,
        before: int | Run[F],
        after: int | Run[F],
        *,
        margin: Decimal | float | str = "0.05",
        restart: bool = False,
        idempotency_key: str | None = None,
    ) -> Steps[m.CompareOut]:
        """Say if the judge drifted: is run `after` as good as run `before` on the same examples?

        Args:
            margin: The loss that you would accept.
            restart: If examples changed since the last look, begin with the present ones.
        """
        sent = calls.compare(
            self.slug, before=_known(before), after=_known(after), margin=margin, restart=restart,
            idempotency_key=idempotency_key,
        )  # fmt: skip
        return (yield from self._session.ask(sent))

    def _number_of(self, run: int | Run[F] | None) -> Steps[int]:
        number = _number(run)
        if number is None:
            number = (yield from self._session.ask(calls.get_project(self.slug))).primary_run
        if number is None:
            raise FairJudgeError(
                f"{self.slug} has no run that decides labels. Start one, or name a run.",
                code="no_run",
            )
        return number

    def _frame(
        self,
        what: Table,
        run: int | Run[F] | None,
        frame: str | None,
        file_format: Format,
        names: bool,
        filters: Filters,
    ) -> Steps[Any]:
        kind = kind_of_frame(frame or self._session.frames)
        if file_format == "parquet":
            call = calls.get_parquet(self.slug, what, run=_number(run), names=names, **filters)
            read = frame_of_parquet(kind)
            with TemporaryFile() as file:
                yield from self._written(call, file)
                return (yield Work(lambda: read(file)))
        if file_format != "jsonl":
            raise ValueError(f"format is {file_format!r}. It can be jsonl or parquet.")
        for is_last in self._attempts():
            columns = Columns()
            try:
                yield from gathered(self._streamed(what, run, names, filters), columns.add)
            except Unreachable as error:
                if is_last or error.code != _BROKEN_OFF:
                    raise
                yield Pause(1.0)
            else:
                return columns.frame(kind)
        raise AssertionError("the last attempt returns or raises")

    def _written(self, call: Call[bytes], file: IO[bytes]) -> Steps[None]:
        """Write a whole table to a file. If it breaks off, begin again."""
        ending = _PARQUET_ENDS if call.operation == "get_parquet" else b""
        for is_last in self._attempts():
            file.seek(0)
            file.truncate()
            try:
                yield from self._session.opened(call)
                last = b""
                while piece := (yield Read()):
                    file.write(piece)
                    last = (last + piece)[-len(_PARQUET_ENDS) :]
                if last.endswith(ending):
                    return
                # A proxy in between may end an answer as if it were whole.
                raise Lost("its end is missing", was_sent=True)
            except Lost as lost:
                if is_last:
                    raise _broken_off(lost) from None
            yield Pause(1.0)

    def _streamed(
        self, what: Table, run: int | Run[F] | None, names: bool, filters: Filters
    ) -> Rows[dict[str, Any]]:
        call = calls.get_table(self.slug, what, "jsonl", run=_number(run), names=names, **filters)
        yield from self._session.opened(call)
        rest = b""
        while True:
            try:
                piece = yield Read()
            except Lost as lost:
                raise _broken_off(lost) from None
            *lines, rest = (rest + piece).split(b"\n")
            if not piece and rest:
                # Each line ends with a line feed: this one is cut.
                raise _broken_off(Lost("a line is cut", was_sent=True))
            if lines:
                yield Give([json.loads(line) for line in lines])
            if not piece:
                return

    def _attempts(self) -> Iterator[bool]:
        """Yield once for each attempt at a whole table, and whether it is the last one."""
        most = self._session.retries
        return (n == most for n in range(most + 1))


_BROKEN_OFF = "broken_off"


def _broken_off(lost: Lost) -> Unreachable:
    return Unreachable(
        f"The table broke off before its end ({lost}). Ask for it again.", code=_BROKEN_OFF
    )


def _number(run: int | Run[Any] | None) -> int | None:
    return None if run is None else _known(run)


def _known(run: int | Run[Any]) -> int:
    return run.number if isinstance(run, Run) else run


def _is_complete(info: m.RoundOut | m.StandingOut) -> bool:
    """Return True if people have nothing more to do. A round that learns selects more first."""
    if not isinstance(info, m.StandingOut) or info.items is None or info.stage == "learn":
        return False
    return (info.done or 0) + (info.undecided or 0) >= info.items


def _show_run(line: Progress, info: m.ProgressOut) -> None:
    cost = "" if info.spent_usd is None else f"${info.spent_usd:.2f}"
    left = in_words(info.eta_seconds) if info.settled < info.expected else ""
    if info.worker_missing:
        left = "no worker is running"
    state = info.state if info.state != "running" else ""
    line.show(f"run {info.number}", info.settled, info.expected, state, cost, left)


def _show_round(line: Progress, info: m.StandingOut) -> None:
    undecided = f"{info.undecided} undecided" if info.undecided else ""
    state = info.state if info.state != "open" else ""
    line.show(f"round {info.number}", info.votes_given, info.votes_asked, state, undecided)


def _other_end(what: str, state: str, reason: str) -> NotFinished:
    said = f"{what} is {state}" + (f": {reason}" if reason else ".")
    return NotFinished(said, state=state, reason=reason)
