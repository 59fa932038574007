"""Projects and what is in them: examples, runs, rounds, people, tables and reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar, Unpack

from fairjudge_client import calls
from fairjudge_client import models as m
from fairjudge_client.errors import FairJudgeError, NotFinished, Unreachable
from fairjudge_client.progress import Progress, in_words
from fairjudge_client.session import Session
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
    gathered,
    method,
    rows_method,
)
from fairjudge_client.tables import Columns, kind_of_frame
from fairjudge_client.waiting import waited

T = TypeVar("T")
Table = Literal["labels", "votes", "samples", "preferences"]
_MOST_ROWS = 1000


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
        self, rows: Any, *, skip_invalid: bool = False, idempotency_key: str | None = None
    ) -> Steps[Import[F]]:
        """Add examples by their IDs. What the project has already stays as it is.

        Args:
            rows: A DataFrame, dictionaries (also an iterator of them), or the path of a CSV or
                JSONL file. The columns are those that FairJudge imports.
            skip_invalid: Leave out rows that can't be imported. Otherwise one of them refuses all.

        Returns:
            The import. Wait for it: a worker writes the rows.

        Raises:
            Invalid: `errors` names each problem by line. Nothing was imported.
        """
        sent = calls.upsert_examples(
            self.project, rows, skip_invalid=skip_invalid, idempotency_key=idempotency_key
        )
        return Import(self._session, self.project, (yield from self._session.ask(sent)))

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
        return _pages(
            self._session,
            lambda cursor: calls.list_examples(
                self.project, limit=_MOST_ROWS, cursor=cursor, external_id=external_id,
                category=category, tag=tag, model=model, label=label,
            ),
        )  # fmt: skip

    @method
    def tag(self, **change: Unpack[m.TagIn]) -> Steps[m.TagChangeOut]:
        """Give a tag to the examples that are chosen, or take it from them."""
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
    def report(self, timeout: float | None = None) -> Steps[dict[str, Any]]:
        """Return the report. Wait while the site computes the figures of a large project."""
        wanted = calls.get_report(self.project, self.number)
        return (yield from self._session.ask(wanted, within=timeout))

    @method
    def certificate(self, timeout: float | None = None) -> Steps[dict[str, Any]]:
        """Return what the audit certifies."""
        wanted = calls.get_certificate(self.project, self.number)
        return (yield from self._session.ask(wanted, within=timeout))

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
        return _pages(
            self._session,
            lambda cursor: calls.list_runs(self.project, limit=_MOST_ROWS, cursor=cursor),
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
        return _pages(
            self._session,
            lambda cursor: calls.list_rounds(self.project, limit=_MOST_ROWS, cursor=cursor),
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
        return _pages(
            self._session,
            lambda cursor: calls.list_annotators(self.project, limit=_MOST_ROWS, cursor=cursor),
        )

    @method
    def invite(self, **terms: Unpack[m.InvitationIn]) -> Steps[m.InvitationOut]:
        """Make a link that lets people join. Anybody who has it can."""
        return (yield from self._session.ask(calls.new_invitation(self.project, **terms)))

    @rows_method
    def invitations(self) -> Rows[m.InvitationOut]:
        """Iterate over the invitations whose link still works."""
        return _pages(
            self._session,
            lambda cursor: calls.list_invitations(self.project, limit=_MOST_ROWS, cursor=cursor),
        )

    @method
    def withdraw(self, invitation: int) -> Steps[m.InvitationOut]:
        """Withdraw a link by its `id`. People who joined by it stay."""
        return (yield from self._session.ask(calls.withdraw_invitation(self.project, invitation)))


class Project(Resource[F]):
    """A project by its slug. Nothing is asked until you call a method."""

    def __init__(self, session: Session, slug: str) -> None:
        super().__init__(session)
        self.slug = slug
        self.examples: Examples[F] = Examples(session, slug)
        self.runs: Runs[F] = Runs(session, slug)
        self.rounds: Rounds[F] = Rounds(session, slug)
        self.people: People[F] = People(session, slug)

    def __repr__(self) -> str:
        return f"<Project {self.slug}>"

    @method
    def info(self) -> Steps[m.ProjectOut]:
        """Return the project's name, your role, and how many examples it has."""
        return (yield from self._session.ask(calls.get_project(self.slug)))

    # Tables

    @method
    def labels(
        self, run: int | Run[F] | None = None, *, frame: str | None = None, names: bool = False
    ) -> Steps[Any]:
        """Return the final labels as a DataFrame, one row per example.

        Args:
            run: A run or its number. Default: the project's primary run.
            frame: pandas, polars or arrow. Default: what the client was made with, or else the
                first of them that is installed.
            names: Names of people instead of pseudonyms.
        """
        return (yield from self._frame("labels", run, frame, names))

    @method
    def votes(self, *, frame: str | None = None, names: bool = False) -> Steps[Any]:
        """Return all votes as a DataFrame, one row per vote. See `labels`."""
        return (yield from self._frame("votes", None, frame, names))

    @method
    def samples(self, run: int | Run[F] | None = None, *, frame: str | None = None) -> Steps[Any]:
        """Return what the judge answered as a DataFrame, one row per sample. See `labels`."""
        return (yield from self._frame("samples", run, frame, False))

    @method
    def preferences(
        self, run: int | Run[F] | None = None, *, frame: str | None = None
    ) -> Steps[Any]:
        """Return chosen and rejected responses as a DataFrame, for training. See `labels`."""
        return (yield from self._frame("preferences", run, frame, False))

    @method
    def head(
        self,
        what: Table,
        n: int = 5,
        run: int | Run[F] | None = None,
        *,
        frame: str | None = None,
        names: bool = False,
    ) -> Steps[Any]:
        """Return the first rows of a table as a DataFrame. It doesn't count as an export."""
        kind = kind_of_frame(frame or self._session.frames)
        page = yield from self._session.ask(
            calls.list_rows(self.slug, what, run=_number(run), names=names, limit=n)
        )
        columns = Columns()
        columns.add(page.items)
        return columns.frame(kind)

    @rows_method
    def rows(
        self, what: Table, run: int | Run[F] | None = None, *, names: bool = False
    ) -> Rows[dict[str, Any]]:
        """Iterate over a table as dictionaries while it comes, in little memory.

        Numbers of which no digit may be lost are text.
        """
        return self._streamed(what, run, names)

    @method
    def save(
        self,
        what: Table,
        path: str | Path,
        run: int | Run[F] | None = None,
        *,
        names: bool = False,
        escape: bool = True,
    ) -> Steps[Path]:
        """Write a table to a .csv or .jsonl file, in little memory. No partial file is left.

        Args:
            escape: Protect spreadsheets from cells that they would compute, in CSV.
        """
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix not in ((".jsonl",) if what == "preferences" else (".csv", ".jsonl")):
            allowed = ".jsonl" if what == "preferences" else ".csv or .jsonl"
            raise ValueError(f"{target.name} doesn't end with {allowed}. Nothing was written.")
        kind: Literal["csv", "jsonl"] = "csv" if suffix == ".csv" else "jsonl"
        call = calls.get_table(self.slug, what, kind, run=_number(run), names=names, escape=escape)
        partial = target.with_name(f"{target.name}.part")
        try:
            for is_last in self._attempts():
                with partial.open("wb") as file:
                    try:
                        yield from self._session.opened(call)
                        while piece := (yield Read()):
                            file.write(piece)
                        break
                    except Lost as lost:
                        if is_last:
                            raise _broken_off(lost) from None
                yield Pause(1.0)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
        return target

    @method
    def import_votes(
        self,
        rows: Any,
        *,
        annotator: str = "",
        protocol: str = "",
        labels: str = "",
        idempotency_key: str | None = None,
    ) -> Steps[m.VotesOut]:
        """Import votes that were given elsewhere: all of them or none.

        Args:
            rows: As `examples.upsert` takes them.
            annotator: Who voted, if no column says so.
            labels: What codes mean, such as 1=win,2=lose.
        """
        sent = calls.new_votes(
            self.slug, rows, annotator=annotator, protocol=protocol, labels=labels,
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
        self, what: Table, run: int | Run[F] | None, frame: str | None, names: bool
    ) -> Steps[Any]:
        kind = kind_of_frame(frame or self._session.frames)
        for is_last in self._attempts():
            columns = Columns()
            try:
                yield from gathered(self._streamed(what, run, names), columns.add)
            except Unreachable as error:
                if is_last or error.code != _BROKEN_OFF:
                    raise
                yield Pause(1.0)
            else:
                return columns.frame(kind)
        raise AssertionError("the last attempt returns or raises")

    def _streamed(self, what: Table, run: int | Run[F] | None, names: bool) -> Rows[dict[str, Any]]:
        call = calls.get_table(self.slug, what, "jsonl", run=_number(run), names=names)
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


def _pages(
    session: Session,
    call_at: Callable[[str], Call[m.Page[Any]]],
    made: Callable[[Any], T] = lambda row: row,
) -> Rows[T]:
    cursor = ""
    while True:
        page = yield from session.ask(call_at(cursor))
        yield Give([made(row) for row in page.items])
        if page.next_cursor is None:
            return
        cursor = page.next_cursor


def _number(run: int | Run[Any] | None) -> int | None:
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
