"""Projects and what is in them: examples, runs, templates, tables, reports and gates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal, NotRequired, TypedDict, TypeVar, Unpack, get_args

from fairjudge_client import calls
from fairjudge_client import models as m
from fairjudge_client.errors import FairJudgeError, Unreachable, problem_of
from fairjudge_client.progress import Progress, in_words
from fairjudge_client.reading import read
from fairjudge_client.rounds import People, Rounds
from fairjudge_client.session import (
    BROKEN_OFF,
    MOST_ROWS,
    TABLE_PAUSE,
    Left,
    Session,
    attempts,
    broken_off,
    pages,
    saved,
    written,
)
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
from fairjudge_client.waiting import other_end, waited
from fairjudge_client.webhooks import Webhooks

G = TypeVar("G", m.GateOut, m.CompareOut, m.EscalationOut, m.CheapestOut)
# The site then leaves long work to a worker, and these methods wait for it.
_ASYNC = {"Prefer": "respond-async"}
Table = Literal["labels", "votes", "samples", "preferences", "criteria", "people"]
Format = Literal["jsonl", "parquet"]
TableFile = Literal["csv", "jsonl", "arrow", "xlsx", "zip"]
ReportFile = Literal["html", "pdf", "tex", "zip"]
ToolFile = Literal["label_studio", "argilla", "alpaca_eval"]
_PARQUET = "parquet"


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


class Study(TypedDict):
    """What is expected of a study, and what it is to show. Shares lie between 0 and 1."""

    win_rate: NotRequired[float]
    ties: NotRequired[float]
    accuracy: NotRequired[float]
    kappa: NotRequired[float]
    wrong: NotRequired[float]
    within: NotRequired[float]
    power: NotRequired[float]
    epsilon: NotRequired[float]
    examples: NotRequired[int]
    votes: NotRequired[int]
    minutes_per_vote: NotRequired[Decimal | float | str]
    wage_usd: NotRequired[Decimal | float | str]


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
            raise other_end(f"Import {self.number}", self.state, self.info.reason)
        return self

    @method
    def begin(self, **choice: Unpack[m.BeginIn]) -> Steps[Import[F]]:
        """Write an import that a page has checked, or go on with one that was interrupted."""
        sent = calls.begin_import(self.project, self.number, **choice)
        self.info = yield from self._session.ask(sent)
        return self

    @method
    def save_refused(self, path: str | Path, index: int = 0) -> Steps[Path]:
        """Write the refused rows of a file, unchanged: its place in `info.refused_files`."""
        call = calls.get_refused(self.project, self.number, index)
        return (yield from saved(self._session, call, Path(path)))

    @method
    def undo(self) -> Steps[Import[F]]:
        """Undo an import of examples or scores. What was judged or voted on stays."""
        self.info = yield from self._session.ask(calls.undo_import(self.project, self.number))
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
        sheet: str = "",
        columns: Sequence[str] = (),
        labels: str = "",
        idempotency_key: str | None = None,
    ) -> Steps[Import[F]]:
        """Add examples by their IDs. What the project has already stays as it is.

        Args:
            rows: A DataFrame, dictionaries (also an iterator of them), or the path of a file: CSV,
                JSONL, Parquet, Arrow or Excel, or .gz and .zst of a text. The columns are those
                that FairJudge imports.
            skip_invalid: Leave out rows that can't be imported. Otherwise one of them refuses all.
            design: Which pairs to make of rows with the responses of several models: "all",
                "baseline=MODEL", "random=2" or "blocks=2".
            seed: Of a random design.
            sheet: Of a workbook. Default: the first one.
            columns: How columns are read, such as ["prompt=question"]. Default: by their names.
            labels: What codes of gold labels mean, such as 1=win,2=lose.

        Returns:
            The import. Wait for it: a worker writes the rows.

        Raises:
            Invalid: `errors` names each problem by line. Nothing was imported.
        """
        sent = calls.upsert_examples(
            self.project, rows, skip_invalid=skip_invalid, design=design, seed=seed, sheet=sheet,
            columns=[*columns], labels=labels,
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
        sheet: str = "",
        columns: Sequence[str] = (),
        labels: str = "",
        run: int | None = None,
    ) -> Steps[m.PairsOut]:
        """Say what `upsert` would add, and what a judge would need for it. Nothing is written.

        Calls and cost are those of `run`, by default the primary run, for its own examples.
        """
        sent = calls.estimate_examples(
            self.project, rows, skip_invalid=skip_invalid, design=design, seed=seed, sheet=sheet,
            columns=[*columns], labels=labels,
            run=run,
        )  # fmt: skip
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
    def change_check(self, **check: Unpack[m.CheckIn]) -> Steps[m.CheckOut]:
        """Change what a check is for, its known label and its explanation, by `external_id`."""
        return (yield from self._session.ask(calls.change_known_label(self.project, **check)))

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
            raise other_end(f"Run {self.number}", self.state, self.info.reason)
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
    def stop_reparsing(self) -> Steps[Run[F]]:
        """End a reading of replies early. What was read is kept, and another goes on from there."""
        return (yield from self._changed(calls.stop_reparsing(self.project, self.number)))

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
    def save_plot(self, name: str, path: str | Path) -> Steps[Path]:
        """Write a plot of the report, by its name, to a .svg or .png file."""
        target = Path(path)
        kind = _kind_of(target, ("svg", "png"))
        call = calls.get_plot(self.project, self.number, name, kind)
        return (yield from saved(self._session, call, target))

    @method
    def save_report(self, path: str | Path) -> Steps[Path]:
        """Write the report to a .html, .pdf, .tex or .zip file. No partial file is left."""
        target = Path(path)
        kind = _kind_of(target, get_args(ReportFile))
        call = replace(calls.get_report_file(self.project, self.number, kind), headers=_ASYNC)
        wait = _left(self._session, self.project)
        return (yield from saved(self._session, call, target, wait))

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
        return (yield from _verdict(self._session, self.project, sent))

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
        made = yield from _imported(self._session, self.project, sent, "run")
        if isinstance(made, int):
            made = yield from self._session.ask(calls.get_run(self.project, made))
        return Run(self._session, self.project, made)


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
        done: m.ScoresOut = yield from _imported(self._session, self.project, sent, "scores")
        return done


class Templates(Resource[F]):
    """The project's own judge templates, in versions."""

    def __init__(self, session: Session, project: str) -> None:
        super().__init__(session)
        self.project = project

    @rows_method
    def list(self) -> Rows[m.TemplateOut]:
        """Iterate over all versions, the oldest first."""
        return pages(
            self._session,
            lambda cursor: calls.list_templates(self.project, limit=MOST_ROWS, cursor=cursor),
        )

    @method
    def add(self, **template: Unpack[m.TemplateIn]) -> Steps[m.TemplateOut]:
        """Keep a template, for `runs.start(template=name)`. A known name gets a new version."""
        return (yield from self._session.ask(calls.new_template(self.project, **template)))

    @method
    def retire(self, version: int) -> Steps[m.TemplateOut]:
        """Take a version out of the choice for new runs, by its `id`."""
        return (yield from self._session.ask(calls.retire_template(self.project, version)))

    @method
    def restore(self, version: int) -> Steps[m.TemplateOut]:
        """Put a retired version back."""
        return (yield from self._session.ask(calls.restore_template(self.project, version)))


class Lessons(Resource[F]):
    """What people's labels teach the judge."""

    def __init__(self, session: Session, project: str) -> None:
        super().__init__(session)
        self.project = project

    @rows_method
    def list(self) -> Rows[m.LessonOut]:
        """Iterate over the lessons, the oldest first."""
        return pages(
            self._session,
            lambda cursor: calls.list_lessons(self.project, limit=MOST_ROWS, cursor=cursor),
        )

    @method
    def get(self, number: int) -> Steps[m.LessonOut]:
        """Return a lesson, with its rubric and its tests."""
        return (yield from self._session.ask(calls.get_lesson(self.project, number)))

    @method
    def estimate(self, **lesson: Unpack[m.LessonIn]) -> Steps[m.LessonPlanOut]:
        """Say what would teach, and what its draft costs. Nothing is sent."""
        return (yield from self._session.ask(calls.estimate_lesson(self.project, **lesson)))

    @method
    def teach(self, **lesson: Unpack[m.LessonIn]) -> Steps[m.LessonOut]:
        """Make a lesson by a `way`: examples, rubric, both or annotators. Drafting a rubric costs.

        Read it, then `approve` it. Nothing is judged before.
        """
        sent = calls.new_lesson(self.project, **lesson)
        asked = replace(sent, answer=sent.answer | m.JobOut, headers=_ASYNC)
        found = yield from self._session.ask(asked)
        if not isinstance(found, m.JobOut):
            return found
        done = yield from _job_done(self._session, self.project, found)
        assert done.lesson is not None
        return (yield from self._session.ask(calls.get_lesson(self.project, done.lesson)))

    @method
    def approve(self, number: int, *, rubric: str | None = None) -> Steps[m.LessonOut]:
        """Make a template of a lesson, for `runs.start(template=lesson.name)`.

        Args:
            rubric: As you edited it. Default: the draft.
        """
        return (
            yield from self._session.ask(calls.approve_lesson(self.project, number, rubric=rubric))
        )

    @method
    def compare(self, number: int, *, run: int | Run[F] | None = None) -> Steps[m.LessonOut]:
        """Compare a run with the taught template with the run that it learned from.

        The template is retired unless it is shown to be better.

        Args:
            run: Default: the newest run with the template.
        """
        sent = calls.compare_lesson(self.project, number, run=_number(run))
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
        self.templates: Templates[F] = Templates(session, slug)
        self.lessons: Lessons[F] = Lessons(session, slug)
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

    @method
    def retention(self, **days: Unpack[m.RetentionIn]) -> Steps[list[m.RetentionOut]]:
        """Return what is removed on which day. With days such as `comments="2027-12-31"`, set them.

        None keeps it, and what you leave out stays. It needs the role of an owner.
        """
        if days:
            return (yield from self._session.ask(calls.set_retention(self.slug, **days)))
        return (yield from self._session.ask(calls.get_retention(self.slug)))

    @method
    def delete(self, *, confirm: str) -> Steps[m.DeletionOut]:
        """Delete the project for good: `confirm` is its slug. `FairJudge.deletions` says how far.

        It is gone for everybody at once. A token of this project alone ends with it.
        """
        return (yield from self._session.ask(calls.delete_project(self.slug, confirm=confirm)))

    @method
    def leave(self) -> Steps[m.ProjectOut]:
        """Leave the project yourself. Your votes stay."""
        return (yield from self._session.ask(calls.leave(self.slug)))

    @method
    def models(self, endpoint: str = "") -> Steps[m.ModelsOut]:
        """Ask an endpoint for its models. By default it is the one that runs take."""
        return (yield from self._session.ask(calls.list_models(self.slug, endpoint=endpoint)))

    @rows_method
    def imports(self) -> Rows[Import[F]]:
        """Iterate over what was imported, the oldest first."""
        return pages(
            self._session,
            lambda cursor: calls.list_imports(self.slug, limit=MOST_ROWS, cursor=cursor),
            lambda info: Import(self._session, self.slug, info),
        )

    @rows_method
    def trail(self) -> Rows[m.EventOut]:
        """Iterate over the audit trail: who did what, the oldest first. For owners alone."""
        return pages(
            self._session,
            lambda cursor: calls.list_events(self.slug, limit=MOST_ROWS, cursor=cursor),
        )

    # Tables

    @method
    def table(
        self,
        what: Table,
        run: int | Run[F] | None = None,
        *,
        frame: str | None = None,
        format: Format = "jsonl",  # noqa: A002 the name that files have elsewhere
        names: bool = False,
        **filters: Unpack[Filters],
    ) -> Steps[Any]:
        """Return any table as a DataFrame, also `criteria` and `people`. See `labels`."""
        return (yield from self._frame(what, run, frame, format, names, filters))

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
        background: bool = False,
        model: Literal["", "dawid_skene", "hierarchical"] = "",
        **filters: Unpack[Filters],
    ) -> Steps[Path]:
        """Write a table to a file, in little memory. No partial file is left.

        Args:
            path: It ends with .csv, .jsonl, .parquet, .arrow, .xlsx, or .zip for a data set.
            escape: Protect spreadsheets from cells that they would compute, in CSV.
            background: Add to `people` what those of a panel said about themselves.
            model: Of `labels`: probabilities by this model of votes, if majorities are final.
            filters: Only rows that have these values. See `labels`.
        """
        target = Path(path)
        kinds = [kind for kind in get_args(TableFile) if (what, kind) != ("preferences", "csv")]
        kind = _kind_of(target, [*kinds, _PARQUET])
        if kind == _PARQUET:
            call = calls.get_parquet(
                self.slug, what, run=_number(run), names=names,
                background=background, model=model, **filters,
            )  # fmt: skip
        else:
            call = calls.get_table(
                self.slug, what, kind, run=_number(run), names=names, escape=escape,
                background=background, model=model, **filters,
            )  # fmt: skip
        wait = _left(self._session, self.slug)
        return (yield from saved(self._session, replace(call, headers=_ASYNC), target, wait))

    @method
    def tool_file(
        self, tool: ToolFile, run: int | Run[F] | None = None, *, where: Sequence[str] = ()
    ) -> Steps[list[Any]]:
        """Return tasks for Label Studio or Argilla, or annotations for alpaca_eval."""
        sent = calls.get_tool_file(self.slug, tool, run=_number(run), where=[*where])
        return (yield from self._session.ask(sent))

    @rows_method
    def exports(self) -> Rows[m.ExportOut]:
        """Iterate over what was exported, the oldest first, also by pages and commands."""
        return pages(
            self._session,
            lambda cursor: calls.list_exports(self.slug, limit=MOST_ROWS, cursor=cursor),
        )

    @rows_method
    def jobs(self) -> Rows[m.JobOut]:
        """Iterate over imports and files that the site left to a worker, the oldest first."""
        return pages(
            self._session,
            lambda cursor: calls.list_jobs(self.slug, limit=MOST_ROWS, cursor=cursor),
        )

    @method
    def cancel_job(self, number: int) -> Steps[m.JobOut]:
        """Have no worker write a report or table any more. What was written of it is removed."""
        return (yield from self._session.ask(calls.cancel_job(self.slug, number)))

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
        done: m.VotesOut = yield from _imported(self._session, self.slug, sent, "votes")
        return done

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
    def sizes(self, timeout: float | None = None, **study: Unpack[Study]) -> Steps[m.SizesOut]:
        """Say how many labels a study needs, from what the primary run has measured so far."""
        wanted = calls.get_project_sizes(self.slug, **study)
        found: m.SizesOut = yield from self._session.ask(wanted, within=timeout)
        return found

    @method
    def preregister(
        self, *, idempotency_key: str | None = None, **plan: Unpack[m.PreregistrationIn]
    ) -> Steps[m.PreregistrationOut]:
        """Store what the study plans with its hash, or amend the plan. It never changes again."""
        wanted = calls.new_preregistration(self.slug, **plan, idempotency_key=idempotency_key)
        return (yield from self._session.ask(wanted))

    @method
    def preregistrations(self) -> Steps[list[m.PreregistrationOut]]:
        """Return all versions of the plan, the newest first."""
        found = yield from self._session.ask(calls.list_preregistrations(self.slug))
        return found.items

    @method
    def preregistration(self, number: int) -> Steps[m.PreregistrationOut]:
        """Return one version of the plan."""
        return (yield from self._session.ask(calls.get_preregistration(self.slug, number)))

    @method
    def check_preregistration(self, path: str | Path) -> Steps[m.PreregistrationCheck]:
        """Say whether a file is a version of the plan that nobody changed."""
        sent = json.loads(Path(path).read_text(encoding="utf-8"))
        wanted = calls.check_preregistration(
            self.slug, preregistration=sent["preregistration"], sha256=sent["sha256"]
        )
        return (yield from self._session.ask(wanted))

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
        return (yield from _verdict(self._session, self.slug, sent))

    @method
    def escalate(self, **asked: Unpack[m.EscalateIn]) -> Steps[m.EscalationOut]:
        """Say which labels `runs` in a row may keep, at an `agreement` with people such as 0.9."""
        sent = calls.escalate(self.slug, **asked)
        return (yield from _verdict(self._session, self.slug, sent))

    @method
    def cheapest(self, **asked: Unpack[m.CheapestIn]) -> Steps[m.CheapestOut]:
        """Search the cheapest plan that reaches a `goal`, such as "accuracy" with `value` 0.9.

        `best` is the number of the recommended plan in `rows`. With `open_round=True`, its round
        is opened, or that of `plan`.
        """
        sent = calls.cheapest(self.slug, **asked)
        return (yield from _verdict(self._session, self.slug, sent))

    @rows_method
    def gates(self) -> Rows[m.GateRequestOut]:
        """Iterate over what the site left to a worker, the oldest first."""
        return pages(
            self._session,
            lambda cursor: calls.list_gates(self.slug, limit=MOST_ROWS, cursor=cursor),
        )

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
        return (yield from _verdict(self._session, self.slug, sent))

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
                asked, wait = replace(call, headers=_ASYNC), _left(self._session, self.slug)
                yield from written(self._session, asked, file, _PARQUET, wait)
                return (yield Work(lambda: read(file)))
        if file_format != "jsonl":
            raise ValueError(f"format is {file_format!r}. It can be jsonl or parquet.")
        for is_last in attempts(self._session):
            columns = Columns()
            try:
                yield from gathered(self._streamed(what, run, names, filters), columns.add)
            except Unreachable as error:
                if is_last or error.code != BROKEN_OFF:
                    raise
                yield Pause(TABLE_PAUSE)
            else:
                return columns.frame(kind)
        raise AssertionError("the last attempt returns or raises")

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
                raise broken_off(lost) from None
            *lines, rest = (rest + piece).split(b"\n")
            if not piece and rest:
                # Each line ends with a line feed: this one is cut.
                raise broken_off(Lost("a line is cut", was_sent=True))
            if lines:
                yield Give([json.loads(line) for line in lines])
            if not piece:
                return


def _kind_of(target: Path, kinds: Sequence[str]) -> Any:
    """Return which kind of file the name asks for."""
    kind = target.suffix.lower().removeprefix(".")
    if kind not in kinds:
        *first, last = (f".{one}" for one in kinds)
        ends = f"{', '.join(first)} or {last}"
        raise ValueError(f"{target.name} doesn't end with {ends}. Nothing was written.")
    return kind


def _verdict(session: Session, project: str, sent: Call[G]) -> Steps[G]:
    """Return a verdict. The site may leave that of a large project to a worker: wait for it."""
    asked = replace(sent, answer=sent.answer | m.GateRequestOut, headers=_ASYNC)
    found = yield from session.ask(asked)
    if not isinstance(found, m.GateRequestOut):
        return found
    done = yield from waited(
        session,
        calls.get_gate(project, found.id),
        f"gate {found.id}",
        has_ended=lambda info: info.state != "waiting",
        show=lambda line, info: line.show(f"gate {info.id}", None, None, info.state),
        timeout=None,
        progress=None,
    )
    verdict: Any = done.gate or done.comparison or done.escalation or done.cheapest
    if verdict is None:
        raise other_end(f"Gate {done.id}", done.state, done.reason)
    return verdict


def _imported(session: Session, project: str, sent: Call[Any], name: str) -> Steps[Any]:
    """Return what an import did. The site may leave many rows to a worker: wait for it.

    Args:
        name: Which field of a job holds it.
    """
    asked = replace(sent, answer=sent.answer | m.JobOut, headers=_ASYNC)
    found = yield from session.ask(asked)
    if not isinstance(found, m.JobOut):
        return found
    return getattr((yield from _job_done(session, project, found)), name)


def _left(session: Session, project: str) -> Left:
    """Return what waits for a file that the site left to a worker."""

    def wait(body: bytes) -> Steps[Call[bytes]]:
        done = yield from _job_done(session, project, read(m.JobOut, json.loads(body)))
        return calls.get_job_file(project, done.id)

    return wait


def _job_done(session: Session, project: str, job: m.JobOut) -> Steps[m.JobOut]:
    """Wait for a job. What the worker refuses is the error that a request at once would get."""
    done = yield from waited(
        session,
        calls.get_job(project, job.id),
        f"job {job.id}",
        has_ended=lambda info: info.state != "waiting",
        show=lambda line, info: line.show(f"{info.kind}: job {info.id}", None, None, info.state),
        timeout=None,
        progress=None,
    )
    if done.state != "done":
        raise problem_of(422, "refused", done.reason)
    return done


def _number(run: int | Run[Any] | None) -> int | None:
    return None if run is None else _known(run)


def _known(run: int | Run[Any]) -> int:
    return run.number if isinstance(run, Run) else run


def _show_run(line: Progress, info: m.ProgressOut) -> None:
    cost = "" if info.spent_usd is None else f"${info.spent_usd:.2f}"
    left = in_words(info.eta_seconds) if info.settled < info.expected else ""
    if info.worker_missing:
        left = "no worker is running"
    state = info.state if info.state != "running" else ""
    line.show(f"run {info.number}", info.settled, info.expected, state, cost, left)
