"""The request of each operation, by its name in the schema.

`make client` writes this module from the schema of the REST interface.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal, Unpack
from urllib.parse import quote

from fairjudge_client import models as m
from fairjudge_client.steps import Call


def list_deletions(*, limit: int = 50, cursor: str = "") -> Call[m.Page[m.DeletionOut]]:
    """List the deletions under way that you began. One that is done is no longer listed."""
    return Call(
        "list_deletions",
        "GET",
        _path("/api/v1/deletions"),
        answer=m.Page[m.DeletionOut],
        query={"limit": limit, "cursor": cursor},
    )


def me() -> Call[m.Me]:
    """Say for whom the token acts and what it may do."""
    return Call("me", "GET", _path("/api/v1/me"), answer=m.Me)


def list_projects(*, limit: int = 50, cursor: str = "") -> Call[m.Page[m.ProjectOut]]:
    """List the projects that the token opens, the oldest first."""
    return Call(
        "list_projects",
        "GET",
        _path("/api/v1/projects"),
        answer=m.Page[m.ProjectOut],
        query={"limit": limit, "cursor": cursor},
    )


def new_project(
    *, idempotency_key: str | None = None, **body: Unpack[m.ProjectIn]
) -> Call[m.ProjectOut]:
    """Create a project that you own. It needs the site permission “researcher”."""
    return Call(
        "new_project",
        "POST",
        _path("/api/v1/projects"),
        answer=m.ProjectOut,
        key=idempotency_key,
        body=body,
    )


def get_project(slug: str) -> Call[m.ProjectOut]:
    return Call("get_project", "GET", _path("/api/v1/projects/", slug), answer=m.ProjectOut)


def list_annotators(
    slug: str, *, limit: int = 100, cursor: str = ""
) -> Call[m.Page[m.AnnotatorOut]]:
    """List who labels, and whose votes were imported."""
    return Call(
        "list_annotators",
        "GET",
        _path("/api/v1/projects/", slug, "/annotators"),
        answer=m.Page[m.AnnotatorOut],
        query={"limit": limit, "cursor": cursor},
    )


def cheapest(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.CheapestIn]
) -> Call[m.CheapestOut]:
    """Search the cheapest plan of judges and people that is shown to reach a goal.

    It replays recorded judgments on the labels of a random sample, so no judge is asked. It shows
    what the judge said, and can open the round of a plan, so it needs the scope `write`.
    """
    return Call(
        "cheapest",
        "POST",
        _path("/api/v1/projects/", slug, "/cheapest"),
        answer=m.CheapestOut,
        key=idempotency_key,
        body=body,
    )


def change_known_label(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.CheckIn]
) -> Call[m.CheckOut]:
    """Change what a check is for, its known label, and its explanation.

    Once a round has the check, only its explanation changes: answers were judged by the rest.
    """
    return Call(
        "change_known_label",
        "POST",
        _path("/api/v1/projects/", slug, "/checks"),
        answer=m.CheckOut,
        key=idempotency_key,
        body=body,
    )


def compare(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.CompareIn]
) -> Call[m.CompareOut]:
    """Say if run B is as good as run A on the same examples, and what changed by category.

    It shows what the judge said. A look at new data is recorded, so it needs the scope `write`.
    """
    return Call(
        "compare",
        "POST",
        _path("/api/v1/projects/", slug, "/compare"),
        answer=m.CompareOut,
        key=idempotency_key,
        body=body,
    )


def delete_project(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.ConfirmIn]
) -> Call[m.DeletionOut]:
    """Delete the project for good. It is gone for everybody at once; a worker removes its rows.

    `Location` lists deletions under way. A token of this project alone ends with it.
    """
    return Call(
        "delete_project",
        "POST",
        _path("/api/v1/projects/", slug, "/delete"),
        answer=m.DeletionOut,
        key=idempotency_key,
        body=body,
    )


def escalate(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.EscalateIn]
) -> Call[m.EscalationOut]:
    """Say which labels judges may keep, so that people agree with them as often as you ask.

    Labels of people that were drawn at random choose the threshold. Nothing is changed.
    """
    return Call(
        "escalate",
        "POST",
        _path("/api/v1/projects/", slug, "/escalate"),
        answer=m.EscalationOut,
        key=idempotency_key,
        body=body,
    )


def list_examples(
    slug: str,
    *,
    limit: int = 100,
    cursor: str = "",
    external_id: str = "",
    category: str = "",
    model: str = "",
    label: Literal["", "win", "tie", "lose", "none"] = "",
    tag: str = "",
) -> Call[m.Page[m.ExampleOut]]:
    """List examples in import order. Filter by id, category, tag, either model, or gold label.

    It shows which model wrote which response, so that your later votes are marked as unblinded.
    """
    return Call(
        "list_examples",
        "GET",
        _path("/api/v1/projects/", slug, "/examples"),
        answer=m.Page[m.ExampleOut],
        query={
            "limit": limit,
            "cursor": cursor,
            "external_id": external_id,
            "category": category,
            "model": model,
            "label": label,
            "tag": tag,
        },
    )


def upsert_examples(
    slug: str,
    rows: Any,
    *,
    skip_invalid: bool = False,
    design: str = "",
    seed: int = 0,
    sheet: str = "",
    columns: list[str] | None = None,
    labels: str = "",
    idempotency_key: str | None = None,
) -> Call[m.ImportOut]:
    """Add examples by their ids. What the project has already stays as it is.

    Send NDJSON, CSV, Excel, Parquet or Arrow, also compressed. All rows are checked first. If one
    is invalid, nothing is imported and the answer names each problem by line; `skip_invalid` leaves
    such rows out. A worker writes: poll `Location`. Rows with the responses of several models need
    a `design`.
    """
    return Call(
        "upsert_examples",
        "POST",
        _path("/api/v1/projects/", slug, "/examples"),
        answer=m.ImportOut,
        rows=rows,
        query={
            "skip_invalid": skip_invalid,
            "design": design,
            "seed": seed,
            "sheet": sheet,
            "columns": columns,
            "labels": labels,
        },
        key=idempotency_key,
    )


def estimate_examples(
    slug: str,
    rows: Any,
    *,
    skip_invalid: bool = False,
    design: str = "",
    seed: int = 0,
    sheet: str = "",
    columns: list[str] | None = None,
    labels: str = "",
    run: int | None = None,
    idempotency_key: str | None = None,
) -> Call[m.PairsOut]:
    """Say what the same rows would add, and what a judge would need for them. Nothing is written.

    Calls and cost are those of a run for its own examples, on average.
    """
    return Call(
        "estimate_examples",
        "POST",
        _path("/api/v1/projects/", slug, "/examples/estimate"),
        answer=m.PairsOut,
        rows=rows,
        query={
            "skip_invalid": skip_invalid,
            "design": design,
            "seed": seed,
            "sheet": sheet,
            "columns": columns,
            "labels": labels,
            "run": run,
        },
        key=idempotency_key,
    )


def list_exports(slug: str, *, limit: int = 100, cursor: str = "") -> Call[m.Page[m.ExportOut]]:
    """List what was exported, the oldest first."""
    return Call(
        "list_exports",
        "GET",
        _path("/api/v1/projects/", slug, "/exports"),
        answer=m.Page[m.ExportOut],
        query={"limit": limit, "cursor": cursor},
    )


def get_tool_file(
    slug: str,
    tool: Literal["label_studio", "argilla", "alpaca_eval"],
    *,
    run: int | None = None,
    where: list[str] | None = None,
) -> Call[list[Any]]:
    """Stream tasks for Label Studio or Argilla, or annotations for alpaca_eval, as one JSON array.

    The export goes on record.
    """
    return Call(
        "get_tool_file",
        "GET",
        _path("/api/v1/projects/", slug, "/for/", tool, ".json"),
        answer=list[Any],
        query={"run": run, "where": where},
    )


def gate(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.GateIn]
) -> Call[m.GateOut]:
    """Say by intervals if a run keeps bounds, and what it takes if that is not decided.

    It shows what the judge said. A look at new data is recorded, so it needs the scope `write`.
    """
    return Call(
        "gate",
        "POST",
        _path("/api/v1/projects/", slug, "/gate"),
        answer=m.GateOut,
        key=idempotency_key,
        body=body,
    )


def list_gates(slug: str, *, limit: int = 50, cursor: str = "") -> Call[m.Page[m.GateRequestOut]]:
    """List what was left to a worker, the oldest first."""
    return Call(
        "list_gates",
        "GET",
        _path("/api/v1/projects/", slug, "/gates"),
        answer=m.Page[m.GateRequestOut],
        query={"limit": limit, "cursor": cursor},
    )


def get_gate(slug: str, number: int) -> Call[m.GateRequestOut]:
    """Say whether a worker has decided, and what."""
    return Call(
        "get_gate",
        "GET",
        _path("/api/v1/projects/", slug, "/gates/", number),
        answer=m.GateRequestOut,
    )


def list_imports(slug: str, *, limit: int = 100, cursor: str = "") -> Call[m.Page[m.ImportOut]]:
    """List what was imported, the oldest first."""
    return Call(
        "list_imports",
        "GET",
        _path("/api/v1/projects/", slug, "/imports"),
        answer=m.Page[m.ImportOut],
        query={"limit": limit, "cursor": cursor},
    )


def get_import(slug: str, number: int) -> Call[m.ImportOut]:
    """Say how far an import is."""
    return Call(
        "get_import",
        "GET",
        _path("/api/v1/projects/", slug, "/imports/", number),
        answer=m.ImportOut,
    )


def begin_import(
    slug: str, number: int, *, idempotency_key: str | None = None, **body: Unpack[m.BeginIn]
) -> Call[m.ImportOut]:
    """Write an import that a page has checked, or go on with one that was interrupted."""
    return Call(
        "begin_import",
        "POST",
        _path("/api/v1/projects/", slug, "/imports/", number, "/begin"),
        answer=m.ImportOut,
        key=idempotency_key,
        body=body,
    )


def get_refused(slug: str, number: int, index: int) -> Call[bytes]:
    """Return the refused rows of a file, unchanged: the place of the file in `refused_files`."""
    return Call(
        "get_refused",
        "GET",
        _path("/api/v1/projects/", slug, "/imports/", number, "/refused/", index),
        answer=None,
    )


def undo_import(slug: str, number: int, *, idempotency_key: str | None = None) -> Call[m.ImportOut]:
    """Undo an import of examples or scores. What was judged, selected or voted on stays."""
    return Call(
        "undo_import",
        "POST",
        _path("/api/v1/projects/", slug, "/imports/", number, "/undo"),
        answer=m.ImportOut,
        key=idempotency_key,
    )


def list_invitations(
    slug: str, *, limit: int = 100, cursor: str = ""
) -> Call[m.Page[m.InvitationOut]]:
    """List the invitations whose link still works."""
    return Call(
        "list_invitations",
        "GET",
        _path("/api/v1/projects/", slug, "/invitations"),
        answer=m.Page[m.InvitationOut],
        query={"limit": limit, "cursor": cursor},
    )


def new_invitation(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.InvitationIn]
) -> Call[m.InvitationOut]:
    """Make a link that lets people join."""
    return Call(
        "new_invitation",
        "POST",
        _path("/api/v1/projects/", slug, "/invitations"),
        answer=m.InvitationOut,
        key=idempotency_key,
        body=body,
    )


def withdraw_invitation(
    slug: str, number: int, *, idempotency_key: str | None = None
) -> Call[m.InvitationOut]:
    """Withdraw a link. People who joined by it stay."""
    return Call(
        "withdraw_invitation",
        "POST",
        _path("/api/v1/projects/", slug, "/invitations/", number, "/revoke"),
        answer=m.InvitationOut,
        key=idempotency_key,
    )


def list_jobs(slug: str, *, limit: int = 50, cursor: str = "") -> Call[m.Page[m.JobOut]]:
    """List imports and files that were left to a worker, the oldest first.

    Observers see files only. Gates are in a list of their own.
    """
    return Call(
        "list_jobs",
        "GET",
        _path("/api/v1/projects/", slug, "/jobs"),
        answer=m.Page[m.JobOut],
        query={"limit": limit, "cursor": cursor},
    )


def get_job(slug: str, number: int) -> Call[m.JobOut]:
    """Say whether a worker has done it, and what came of it."""
    return Call(
        "get_job", "GET", _path("/api/v1/projects/", slug, "/jobs/", number), answer=m.JobOut
    )


def cancel_job(slug: str, number: int, *, idempotency_key: str | None = None) -> Call[m.JobOut]:
    """Have no worker write a report or table any more. What was written of it is removed."""
    return Call(
        "cancel_job",
        "POST",
        _path("/api/v1/projects/", slug, "/jobs/", number, "/cancel"),
        answer=m.JobOut,
        key=idempotency_key,
    )


def get_job_file(slug: str, number: int) -> Call[bytes]:
    """Return the report or table that a worker has written."""
    return Call(
        "get_job_file",
        "GET",
        _path("/api/v1/projects/", slug, "/jobs/", number, "/file"),
        answer=None,
    )


def new_judgments(
    slug: str,
    rows: Any,
    *,
    name: str = "",
    labels: str = "",
    sheet: str = "",
    idempotency_key: str | None = None,
) -> Call[m.RunOut]:
    """Make a run of judgments that were given elsewhere, as NDJSON or CSV. No judge is asked.

    After a crash in the middle, the run has failed. Send the same rows again under its name.
    """
    return Call(
        "new_judgments",
        "POST",
        _path("/api/v1/projects/", slug, "/judgments"),
        answer=m.RunOut,
        rows=rows,
        query={"name": name, "labels": labels, "sheet": sheet},
        key=idempotency_key,
    )


def leave(slug: str, *, idempotency_key: str | None = None) -> Call[m.ProjectOut]:
    """Leave the project yourself, and return it as it was. Your votes stay."""
    return Call(
        "leave",
        "POST",
        _path("/api/v1/projects/", slug, "/leave"),
        answer=m.ProjectOut,
        key=idempotency_key,
    )


def list_lessons(slug: str, *, limit: int = 50, cursor: str = "") -> Call[m.Page[m.LessonOut]]:
    """List the lessons, the oldest first. It shows judge output."""
    return Call(
        "list_lessons",
        "GET",
        _path("/api/v1/projects/", slug, "/lessons"),
        answer=m.Page[m.LessonOut],
        query={"limit": limit, "cursor": cursor},
    )


def new_lesson(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.LessonIn]
) -> Call[m.LessonOut]:
    """Choose solved examples, and have a model draft a rubric, which may cost money.

    Nothing is judged before you have approved the lesson. It shows judge output.
    """
    return Call(
        "new_lesson",
        "POST",
        _path("/api/v1/projects/", slug, "/lessons"),
        answer=m.LessonOut,
        key=idempotency_key,
        body=body,
    )


def estimate_lesson(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.LessonIn]
) -> Call[m.LessonPlanOut]:
    """Say what would teach, and what its draft costs. Nothing is sent. It shows judge output."""
    return Call(
        "estimate_lesson",
        "POST",
        _path("/api/v1/projects/", slug, "/lessons/estimate"),
        answer=m.LessonPlanOut,
        key=idempotency_key,
        body=body,
    )


def get_lesson(slug: str, number: int) -> Call[m.LessonOut]:
    """Return a lesson. It shows judge output."""
    return Call(
        "get_lesson",
        "GET",
        _path("/api/v1/projects/", slug, "/lessons/", number),
        answer=m.LessonOut,
    )


def approve_lesson(
    slug: str, number: int, *, idempotency_key: str | None = None, **body: Unpack[m.ApproveIn]
) -> Call[m.LessonOut]:
    """Make a version of the template of what you have read. Nothing is judged by this."""
    return Call(
        "approve_lesson",
        "POST",
        _path("/api/v1/projects/", slug, "/lessons/", number, "/approve"),
        answer=m.LessonOut,
        key=idempotency_key,
        body=body,
    )


def compare_lesson(
    slug: str, number: int, *, idempotency_key: str | None = None, **body: Unpack[m.LessonCompareIn]
) -> Call[m.LessonOut]:
    """Compare the taught run with the old one. The version is retired unless it is better."""
    return Call(
        "compare_lesson",
        "POST",
        _path("/api/v1/projects/", slug, "/lessons/", number, "/compare"),
        answer=m.LessonOut,
        key=idempotency_key,
        body=body,
    )


def list_members(slug: str, *, limit: int = 100, cursor: str = "") -> Call[m.Page[m.MemberOut]]:
    """List who belongs to the project, with their roles."""
    return Call(
        "list_members",
        "GET",
        _path("/api/v1/projects/", slug, "/members"),
        answer=m.Page[m.MemberOut],
        query={"limit": limit, "cursor": cursor},
    )


def new_password_link(
    slug: str, number: int, *, idempotency_key: str | None = None
) -> Call[m.PasswordLinkOut]:
    """Make a link by which a member sets a new password, if their login opens this project alone.

    The answer alone tells it.
    """
    return Call(
        "new_password_link",
        "POST",
        _path("/api/v1/projects/", slug, "/members/", number, "/password-link"),
        answer=m.PasswordLinkOut,
        key=idempotency_key,
    )


def remove_member(
    slug: str, number: int, *, idempotency_key: str | None = None
) -> Call[m.MemberOut]:
    """Remove a member. Their votes stay."""
    return Call(
        "remove_member",
        "POST",
        _path("/api/v1/projects/", slug, "/members/", number, "/remove"),
        answer=m.MemberOut,
        key=idempotency_key,
    )


def change_member(
    slug: str, number: int, *, idempotency_key: str | None = None, **body: Unpack[m.RoleIn]
) -> Call[m.MemberOut]:
    """Change a member's role. A project keeps an owner."""
    return Call(
        "change_member",
        "POST",
        _path("/api/v1/projects/", slug, "/members/", number, "/role"),
        answer=m.MemberOut,
        key=idempotency_key,
        body=body,
    )


def list_models(slug: str, *, endpoint: str = "") -> Call[m.ModelsOut]:
    """Ask an endpoint for its models. It costs nothing."""
    return Call(
        "list_models",
        "GET",
        _path("/api/v1/projects/", slug, "/models"),
        answer=m.ModelsOut,
        query={"endpoint": endpoint},
    )


def list_preregistrations(slug: str) -> Call[m.PreregistrationList]:
    """List all versions of the plan, the newest first."""
    return Call(
        "list_preregistrations",
        "GET",
        _path("/api/v1/projects/", slug, "/preregistrations"),
        answer=m.PreregistrationList,
    )


def new_preregistration(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.PreregistrationIn]
) -> Call[m.PreregistrationOut]:
    """Register a plan, or an amendment if there is one. It can't be changed or deleted."""
    return Call(
        "new_preregistration",
        "POST",
        _path("/api/v1/projects/", slug, "/preregistrations"),
        answer=m.PreregistrationOut,
        key=idempotency_key,
        body=body,
    )


def check_preregistration(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.PreregistrationFile]
) -> Call[m.PreregistrationCheck]:
    """Say whether a file is a version of this project's plan that nobody changed."""
    return Call(
        "check_preregistration",
        "POST",
        _path("/api/v1/projects/", slug, "/preregistrations/check"),
        answer=m.PreregistrationCheck,
        key=idempotency_key,
        body=body,
    )


def get_preregistration(slug: str, number: int) -> Call[m.PreregistrationOut]:
    return Call(
        "get_preregistration",
        "GET",
        _path("/api/v1/projects/", slug, "/preregistrations/", number),
        answer=m.PreregistrationOut,
    )


def get_people_report(slug: str) -> Call[dict[str, Any]]:
    """Return what people alone say, which needs no run: labels, agreement and costs.

    It shows nothing that a judge said, so that it unblinds nobody.
    """
    return Call(
        "get_people_report",
        "GET",
        _path("/api/v1/projects/", slug, "/report/people"),
        answer=dict[str, Any],
    )


def get_retention(slug: str) -> Call[list[m.RetentionOut]]:
    """List what is removed from the project, and on which day."""
    return Call(
        "get_retention",
        "GET",
        _path("/api/v1/projects/", slug, "/retention"),
        answer=list[m.RetentionOut],
    )


def set_retention(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.RetentionIn]
) -> Call[list[m.RetentionOut]]:
    """Set days on which something is removed. `null` keeps it, and what isn't named stays."""
    return Call(
        "set_retention",
        "PATCH",
        _path("/api/v1/projects/", slug, "/retention"),
        answer=list[m.RetentionOut],
        key=idempotency_key,
        body=body,
    )


def list_rounds(slug: str, *, limit: int = 50, cursor: str = "") -> Call[m.Page[m.RoundOut]]:
    """List the rounds, the oldest first."""
    return Call(
        "list_rounds",
        "GET",
        _path("/api/v1/projects/", slug, "/rounds"),
        answer=m.Page[m.RoundOut],
        query={"limit": limit, "cursor": cursor},
    )


def new_round(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.RoundIn]
) -> Call[m.RoundOut]:
    """Open a round. Annotators see it once it is written whole: poll `Location`."""
    return Call(
        "new_round",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds"),
        answer=m.RoundOut,
        key=idempotency_key,
        body=body,
    )


def plan_round(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.RoundIn]
) -> Call[m.PlanOut]:
    """Say what a round with these settings selects and costs. Nothing is opened."""
    return Call(
        "plan_round",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/plan"),
        answer=m.PlanOut,
        key=idempotency_key,
        body=body,
    )


def get_round(slug: str, number: int) -> Call[m.StandingOut]:
    """Say how far people are in a round."""
    return Call(
        "get_round",
        "GET",
        _path("/api/v1/projects/", slug, "/rounds/", number),
        answer=m.StandingOut,
    )


def cancel_round(slug: str, number: int, *, idempotency_key: str | None = None) -> Call[m.RoundOut]:
    """Undo what is under way: opening or closing the round, more items, or more votes."""
    return Call(
        "cancel_round",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/cancel"),
        answer=m.RoundOut,
        key=idempotency_key,
    )


def close_round(slug: str, number: int, *, idempotency_key: str | None = None) -> Call[m.RoundOut]:
    """End the round and settle its items."""
    return Call(
        "close_round",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/close"),
        answer=m.RoundOut,
        key=idempotency_key,
    )


def get_crowd(slug: str, number: int) -> Call[m.CrowdOut]:
    """Return a round's crowd link with its terms, and how many people are in which state."""
    return Call(
        "get_crowd",
        "GET",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/crowd"),
        answer=m.CrowdOut,
    )


def set_crowd(
    slug: str, number: int, *, idempotency_key: str | None = None, **body: Unpack[m.CrowdIn]
) -> Call[m.CrowdOut]:
    """Make the link, or change its terms. One that was withdrawn gets a new address."""
    return Call(
        "set_crowd",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/crowd"),
        answer=m.CrowdOut,
        key=idempotency_key,
        body=body,
    )


def put_rejected_aside(
    slug: str, number: int, *, idempotency_key: str | None = None
) -> Call[m.VotesAsideOut]:
    """Put the votes of all rejected submissions aside. `count_again` takes that back."""
    return Call(
        "put_rejected_aside",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/crowd/aside"),
        answer=m.VotesAsideOut,
        key=idempotency_key,
    )


def mark_submissions(
    slug: str, number: int, rows: Any, *, aside: bool = False, idempotency_key: str | None = None
) -> Call[m.MarkedOut]:
    """Take the panel's CSV of approved, rejected and returned submissions, all of it or nothing.

    `aside` also puts the votes of rejected submissions aside.
    """
    return Call(
        "mark_submissions",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/crowd/marks"),
        answer=m.MarkedOut,
        rows=rows,
        query={"aside": aside},
        key=idempotency_key,
    )


def list_submissions(
    slug: str, number: int, *, limit: int = 100, cursor: str = ""
) -> Call[m.Page[m.SubmissionOut]]:
    """List who came by the link, the first one first."""
    return Call(
        "list_submissions",
        "GET",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/crowd/submissions"),
        answer=m.Page[m.SubmissionOut],
        query={"limit": limit, "cursor": cursor},
    )


def get_submissions_file(slug: str, number: int) -> Call[bytes]:
    """Return the file for paying, with the panel's ids and codes. Each download is on record."""
    return Call(
        "get_submissions_file",
        "GET",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/crowd/submissions.csv"),
        answer=None,
    )


def withdraw_crowd(
    slug: str, number: int, *, idempotency_key: str | None = None
) -> Call[m.CrowdOut]:
    """Let nobody new in. People who are at work may finish, and `set_crowd` opens a new link."""
    return Call(
        "withdraw_crowd",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/crowd/withdraw"),
        answer=m.CrowdOut,
        key=idempotency_key,
    )


def list_decisions(
    slug: str, number: int, *, limit: int = 100, cursor: str = ""
) -> Call[m.Page[m.DecisionOut]]:
    """List the decisions in a round, the oldest first. The last one about an item holds."""
    return Call(
        "list_decisions",
        "GET",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/decisions"),
        answer=m.Page[m.DecisionOut],
        query={"limit": limit, "cursor": cursor},
    )


def new_decision(
    slug: str, number: int, *, idempotency_key: str | None = None, **body: Unpack[m.DecisionIn]
) -> Call[m.DecisionOut]:
    """Decide about an item that votes did not settle."""
    return Call(
        "new_decision",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/decisions"),
        answer=m.DecisionOut,
        key=idempotency_key,
        body=body,
    )


def undo_decision(
    slug: str, number: int, decision: int, *, idempotency_key: str | None = None
) -> Call[m.DecisionOut]:
    """Take your own last decision on an item back, so that it waits again."""
    return Call(
        "undo_decision",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/decisions/", decision, "/undo"),
        answer=m.DecisionOut,
        key=idempotency_key,
    )


def extend_round(
    slug: str, number: int, *, idempotency_key: str | None = None, **body: Unpack[m.ExtendIn]
) -> Call[m.RoundOut]:
    """Select up to a larger cut."""
    return Call(
        "extend_round",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/extend"),
        answer=m.RoundOut,
        key=idempotency_key,
        body=body,
    )


def list_flags(
    slug: str, number: int, *, limit: int = 100, cursor: str = ""
) -> Call[m.Page[m.FlagOut]]:
    """List what annotators say is wrong with items of a round, the oldest first."""
    return Call(
        "list_flags",
        "GET",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/flags"),
        answer=m.Page[m.FlagOut],
        query={"limit": limit, "cursor": cursor},
    )


def settle_flag_of(
    slug: str, number: int, flag: int, *, idempotency_key: str | None = None
) -> Call[m.FlagOut]:
    """Note that somebody has dealt with a flag."""
    return Call(
        "settle_flag_of",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/flags/", flag, "/settle"),
        answer=m.FlagOut,
        key=idempotency_key,
    )


def pause_round(slug: str, number: int, *, idempotency_key: str | None = None) -> Call[m.RoundOut]:
    """Hand out no new items."""
    return Call(
        "pause_round",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/pause"),
        answer=m.RoundOut,
        key=idempotency_key,
    )


def assign_people(
    slug: str, number: int, *, idempotency_key: str | None = None, **body: Unpack[m.PeopleIn]
) -> Call[m.RoundOut]:
    """Choose who labels in the round, and how much each. Votes that others gave stay."""
    return Call(
        "assign_people",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/people"),
        answer=m.RoundOut,
        key=idempotency_key,
        body=body,
    )


def put_aside(
    slug: str,
    number: int,
    annotator: int,
    *,
    idempotency_key: str | None = None,
    **body: Unpack[m.AsideIn],
) -> Call[m.PersonOut]:
    """Let the votes that a person gave in this round no longer count. Their cost stays."""
    return Call(
        "put_aside",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/people/", annotator, "/aside"),
        answer=m.PersonOut,
        key=idempotency_key,
        body=body,
    )


def count_again(
    slug: str, number: int, annotator: int, *, idempotency_key: str | None = None
) -> Call[m.PersonOut]:
    """Count votes again that were put aside, as far as their pairs still need votes."""
    return Call(
        "count_again",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/people/", annotator, "/count-again"),
        answer=m.PersonOut,
        key=idempotency_key,
    )


def release_person(
    slug: str, number: int, annotator: int, *, idempotency_key: str | None = None
) -> Call[m.PersonOut]:
    """Hand out items of this round again to a person who was stopped or paused."""
    return Call(
        "release_person",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/people/", annotator, "/release"),
        answer=m.PersonOut,
        key=idempotency_key,
    )


def get_practice(slug: str, number: int) -> Call[m.PracticeOut]:
    """Say how people did in a training or a qualification. In other rounds nobody practises."""
    return Call(
        "get_practice",
        "GET",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/practice"),
        answer=m.PracticeOut,
    )


def reopen_round(slug: str, number: int, *, idempotency_key: str | None = None) -> Call[m.RoundOut]:
    """Go on with the items that didn't get all their votes."""
    return Call(
        "reopen_round",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/reopen"),
        answer=m.RoundOut,
        key=idempotency_key,
    )


def resume_round(slug: str, number: int, *, idempotency_key: str | None = None) -> Call[m.RoundOut]:
    """Hand out items again."""
    return Call(
        "resume_round",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/resume"),
        answer=m.RoundOut,
        key=idempotency_key,
    )


def list_undecided(
    slug: str, number: int, *, limit: int = 100, cursor: str = ""
) -> Call[m.Page[m.UndecidedOut]]:
    """List the items of a round that wait for a decision."""
    return Call(
        "list_undecided",
        "GET",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/undecided"),
        answer=m.Page[m.UndecidedOut],
        query={"limit": limit, "cursor": cursor},
    )


def raise_votes(
    slug: str, number: int, *, idempotency_key: str | None = None, **body: Unpack[m.VotesIn]
) -> Call[m.RoundOut]:
    """Ask for more votes per item."""
    return Call(
        "raise_votes",
        "POST",
        _path("/api/v1/projects/", slug, "/rounds/", number, "/votes"),
        answer=m.RoundOut,
        key=idempotency_key,
        body=body,
    )


def list_runs(slug: str, *, limit: int = 50, cursor: str = "") -> Call[m.Page[m.RunOut]]:
    """List the runs, the oldest first."""
    return Call(
        "list_runs",
        "GET",
        _path("/api/v1/projects/", slug, "/runs"),
        answer=m.Page[m.RunOut],
        query={"limit": limit, "cursor": cursor},
    )


def new_run(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.RunIn]
) -> Call[m.RunOut]:
    """Start a run, which may cost money. A worker asks the judge: poll `Location`."""
    return Call(
        "new_run",
        "POST",
        _path("/api/v1/projects/", slug, "/runs"),
        answer=m.RunOut,
        key=idempotency_key,
        body=body,
    )


def estimate(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.RunIn]
) -> Call[m.EstimateOut]:
    """Estimate what such a run costs. Nothing is started."""
    return Call(
        "estimate",
        "POST",
        _path("/api/v1/projects/", slug, "/runs/estimate"),
        answer=m.EstimateOut,
        key=idempotency_key,
        body=body,
    )


def get_run(slug: str, number: int) -> Call[m.ProgressOut]:
    """Say how far a run is."""
    return Call(
        "get_run", "GET", _path("/api/v1/projects/", slug, "/runs/", number), answer=m.ProgressOut
    )


def raise_budget(
    slug: str, number: int, *, idempotency_key: str | None = None, **body: Unpack[m.BudgetIn]
) -> Call[m.RunOut]:
    """Change the budget, which may cost money. A run that paused for it has to be resumed."""
    return Call(
        "raise_budget",
        "POST",
        _path("/api/v1/projects/", slug, "/runs/", number, "/budget"),
        answer=m.RunOut,
        key=idempotency_key,
        body=body,
    )


def cancel_run(slug: str, number: int, *, idempotency_key: str | None = None) -> Call[m.RunOut]:
    """Stop the run. Its answers are kept, and it can be resumed."""
    return Call(
        "cancel_run",
        "POST",
        _path("/api/v1/projects/", slug, "/runs/", number, "/cancel"),
        answer=m.RunOut,
        key=idempotency_key,
    )


def get_certificate(slug: str, number: int) -> Call[dict[str, Any]]:
    """Return what the audit certifies: the part `certificate` of the report."""
    return Call(
        "get_certificate",
        "GET",
        _path("/api/v1/projects/", slug, "/runs/", number, "/certificate"),
        answer=dict[str, Any],
    )


def pause_run(slug: str, number: int, *, idempotency_key: str | None = None) -> Call[m.RunOut]:
    """Send nothing more. Answers on their way are still recorded."""
    return Call(
        "pause_run",
        "POST",
        _path("/api/v1/projects/", slug, "/runs/", number, "/pause"),
        answer=m.RunOut,
        key=idempotency_key,
    )


def get_plot(slug: str, number: int, name: str, kind: Literal["svg", "png"]) -> Call[bytes]:
    """Return a plot of the report as a file for a paper."""
    return Call(
        "get_plot",
        "GET",
        _path("/api/v1/projects/", slug, "/runs/", number, "/plots/", name, ".", kind),
        answer=None,
    )


def choose_primary(slug: str, number: int, *, idempotency_key: str | None = None) -> Call[m.RunOut]:
    """Make this the project's primary run, by which labels are merged."""
    return Call(
        "choose_primary",
        "POST",
        _path("/api/v1/projects/", slug, "/runs/", number, "/primary"),
        answer=m.RunOut,
        key=idempotency_key,
    )


def reparse_run(slug: str, number: int, *, idempotency_key: str | None = None) -> Call[m.RunOut]:
    """Have a worker read the stored replies again by today's parser. No request is sent."""
    return Call(
        "reparse_run",
        "POST",
        _path("/api/v1/projects/", slug, "/runs/", number, "/reparse"),
        answer=m.RunOut,
        key=idempotency_key,
    )


def stop_reparsing(slug: str, number: int, *, idempotency_key: str | None = None) -> Call[m.RunOut]:
    """End a reading of replies early. What was read is kept, and another one goes on from there."""
    return Call(
        "stop_reparsing",
        "POST",
        _path("/api/v1/projects/", slug, "/runs/", number, "/reparse/stop"),
        answer=m.RunOut,
        key=idempotency_key,
    )


def get_report(slug: str, number: int) -> Call[dict[str, Any]]:
    """Return the report, as docs/report.md describes it. It shows what the judge said.

    While a worker computes the figures of a large project, the answer is 202 with `Retry-After`.
    """
    return Call(
        "get_report",
        "GET",
        _path("/api/v1/projects/", slug, "/runs/", number, "/report"),
        answer=dict[str, Any],
    )


def get_report_file(
    slug: str, number: int, kind: Literal["html", "pdf", "zip", "tex"]
) -> Call[bytes]:
    """Return the report as one page, as a PDF, for LaTeX, or as a ZIP that `verify` checks."""
    return Call(
        "get_report_file",
        "GET",
        _path("/api/v1/projects/", slug, "/runs/", number, "/report.", kind),
        answer=None,
    )


def resume_run(
    slug: str, number: int, *, idempotency_key: str | None = None, **body: Unpack[m.ResumeIn]
) -> Call[m.RunOut]:
    """Ask for what has no answer yet, which may cost money."""
    return Call(
        "resume_run",
        "POST",
        _path("/api/v1/projects/", slug, "/runs/", number, "/resume"),
        answer=m.RunOut,
        key=idempotency_key,
        body=body,
    )


def new_scores(
    slug: str, rows: Any, *, rater: str = "", sheet: str = "", idempotency_key: str | None = None
) -> Call[m.ScoresOut]:
    """Import people's scores of single responses, as NDJSON or CSV: all of them or none."""
    return Call(
        "new_scores",
        "POST",
        _path("/api/v1/projects/", slug, "/scores"),
        answer=m.ScoresOut,
        rows=rows,
        query={"rater": rater, "sheet": sheet},
        key=idempotency_key,
    )


def get_settings(slug: str) -> Call[m.SettingsOut]:
    return Call(
        "get_settings", "GET", _path("/api/v1/projects/", slug, "/settings"), answer=m.SettingsOut
    )


def update_settings(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.SettingsIn]
) -> Call[m.SettingsOut]:
    """Change some settings. Open rounds keep what they asked, unless the settings page says so."""
    return Call(
        "update_settings",
        "PATCH",
        _path("/api/v1/projects/", slug, "/settings"),
        answer=m.SettingsOut,
        key=idempotency_key,
        body=body,
    )


def get_project_sizes(
    slug: str,
    *,
    win_rate: float | None = None,
    ties: float | None = None,
    accuracy: float | None = None,
    kappa: float | None = None,
    wrong: float | None = None,
    within: float | None = None,
    power: float | None = None,
    epsilon: float | None = None,
    examples: int | None = None,
    votes: int | None = None,
    minutes_per_vote: Decimal | float | str | None = None,
    wage_usd: Decimal | float | str | None = None,
) -> Call[m.SizesOut]:
    """Say it with what the primary run has measured so far. It shows what the judge said.

    While a worker computes the figures of a large project, the answer is 202 with `Retry-After`.
    """
    return Call(
        "get_project_sizes",
        "GET",
        _path("/api/v1/projects/", slug, "/sizes"),
        answer=m.SizesOut,
        query={
            "win_rate": win_rate,
            "ties": ties,
            "accuracy": accuracy,
            "kappa": kappa,
            "wrong": wrong,
            "within": within,
            "power": power,
            "epsilon": epsilon,
            "examples": examples,
            "votes": votes,
            "minutes_per_vote": minutes_per_vote,
            "wage_usd": wage_usd,
        },
    )


def list_rows(
    slug: str,
    what: Literal["labels", "votes", "samples", "preferences", "criteria", "people", "trail"],
    *,
    external_id: str = "",
    category: str = "",
    final_label: str = "",
    label: str = "",
    source: str = "",
    selection: str = "",
    annotator: str = "",
    status: str = "",
    run: int | None = None,
    names: bool = False,
    limit: int = 100,
    cursor: str = "",
    where: list[str] | None = None,
) -> Call[m.Page[dict[str, Any]]]:
    """Return a page of a table, with the keys that JSON lines have."""
    return Call(
        "list_rows",
        "GET",
        _path("/api/v1/projects/", slug, "/tables/", what),
        answer=m.Page[dict[str, Any]],
        query={
            "external_id": external_id,
            "category": category,
            "final_label": final_label,
            "label": label,
            "source": source,
            "selection": selection,
            "annotator": annotator,
            "status": status,
            "run": run,
            "names": names,
            "limit": limit,
            "cursor": cursor,
            "where": where,
        },
    )


def tag_examples(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.TagIn]
) -> Call[m.TagChangeOut]:
    """Give a tag to examples, or take it from them. Attention checks are left out."""
    return Call(
        "tag_examples",
        "POST",
        _path("/api/v1/projects/", slug, "/tags"),
        answer=m.TagChangeOut,
        key=idempotency_key,
        body=body,
    )


def undo_tags(
    slug: str, number: int, *, idempotency_key: str | None = None
) -> Call[m.TagChangeOut]:
    """Take a change of tags back."""
    return Call(
        "undo_tags",
        "POST",
        _path("/api/v1/projects/", slug, "/tags/", number, "/undo"),
        answer=m.TagChangeOut,
        key=idempotency_key,
    )


def add_team(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.TeamNameIn]
) -> Call[m.TeamAddedOut]:
    """Make the people of one of your teams annotators of the project."""
    return Call(
        "add_team",
        "POST",
        _path("/api/v1/projects/", slug, "/teams"),
        answer=m.TeamAddedOut,
        key=idempotency_key,
        body=body,
    )


def list_templates(slug: str, *, limit: int = 100, cursor: str = "") -> Call[m.Page[m.TemplateOut]]:
    """List the versions of the project's own judge templates, the oldest first."""
    return Call(
        "list_templates",
        "GET",
        _path("/api/v1/projects/", slug, "/templates"),
        answer=m.Page[m.TemplateOut],
        query={"limit": limit, "cursor": cursor},
    )


def new_template(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.TemplateIn]
) -> Call[m.TemplateOut]:
    """Keep a judge template. A name that the project has already gets a new version."""
    return Call(
        "new_template",
        "POST",
        _path("/api/v1/projects/", slug, "/templates"),
        answer=m.TemplateOut,
        key=idempotency_key,
        body=body,
    )


def restore_template(
    slug: str, number: int, *, idempotency_key: str | None = None
) -> Call[m.TemplateOut]:
    """Put a retired version back."""
    return Call(
        "restore_template",
        "POST",
        _path("/api/v1/projects/", slug, "/templates/", number, "/restore"),
        answer=m.TemplateOut,
        key=idempotency_key,
    )


def retire_template(
    slug: str, number: int, *, idempotency_key: str | None = None
) -> Call[m.TemplateOut]:
    """Take a version out of the choice for new runs. Its name means the one before it."""
    return Call(
        "retire_template",
        "POST",
        _path("/api/v1/projects/", slug, "/templates/", number, "/retire"),
        answer=m.TemplateOut,
        key=idempotency_key,
    )


def list_events(slug: str, *, limit: int = 100, cursor: str = "") -> Call[m.Page[m.EventOut]]:
    """List the audit trail: who did what, the oldest first."""
    return Call(
        "list_events",
        "GET",
        _path("/api/v1/projects/", slug, "/trail"),
        answer=m.Page[m.EventOut],
        query={"limit": limit, "cursor": cursor},
    )


def new_votes(
    slug: str,
    rows: Any,
    *,
    annotator: str = "",
    protocol: str = "",
    labels: str = "",
    sheet: str = "",
    idempotency_key: str | None = None,
) -> Call[m.VotesOut]:
    """Import votes that were given elsewhere, as NDJSON or CSV: all of them or none."""
    return Call(
        "new_votes",
        "POST",
        _path("/api/v1/projects/", slug, "/votes"),
        answer=m.VotesOut,
        rows=rows,
        query={"annotator": annotator, "protocol": protocol, "labels": labels, "sheet": sheet},
        key=idempotency_key,
    )


def list_webhooks(slug: str, *, limit: int = 50, cursor: str = "") -> Call[m.Page[m.WebhookOut]]:
    """List the webhooks, the oldest first."""
    return Call(
        "list_webhooks",
        "GET",
        _path("/api/v1/projects/", slug, "/webhooks"),
        answer=m.Page[m.WebhookOut],
        query={"limit": limit, "cursor": cursor},
    )


def new_webhook(
    slug: str, *, idempotency_key: str | None = None, **body: Unpack[m.WebhookIn]
) -> Call[m.WebhookSecret]:
    """Add a webhook. The answer alone tells its secret; docs/api.md says what is sent."""
    return Call(
        "new_webhook",
        "POST",
        _path("/api/v1/projects/", slug, "/webhooks"),
        answer=m.WebhookSecret,
        key=idempotency_key,
        body=body,
    )


def get_webhook(slug: str, number: int) -> Call[m.WebhookOut]:
    return Call(
        "get_webhook",
        "GET",
        _path("/api/v1/projects/", slug, "/webhooks/", number),
        answer=m.WebhookOut,
    )


def delete_webhook(
    slug: str, number: int, *, idempotency_key: str | None = None
) -> Call[m.WebhookOut]:
    """Delete the webhook with its log, and return it as it was."""
    return Call(
        "delete_webhook",
        "POST",
        _path("/api/v1/projects/", slug, "/webhooks/", number, "/delete"),
        answer=m.WebhookOut,
        key=idempotency_key,
    )


def list_deliveries(
    slug: str, number: int, *, limit: int = 50, cursor: str = ""
) -> Call[m.Page[m.DeliveryOut]]:
    """List the log, the oldest event first. Events that have ended stay for 30 days."""
    return Call(
        "list_deliveries",
        "GET",
        _path("/api/v1/projects/", slug, "/webhooks/", number, "/deliveries"),
        answer=m.Page[m.DeliveryOut],
        query={"limit": limit, "cursor": cursor},
    )


def send_delivery(
    slug: str, number: int, delivery: int, *, idempotency_key: str | None = None
) -> Call[m.DeliveryOut]:
    """Send an event again, with the same message id."""
    return Call(
        "send_delivery",
        "POST",
        _path("/api/v1/projects/", slug, "/webhooks/", number, "/deliveries/", delivery, "/send"),
        answer=m.DeliveryOut,
        key=idempotency_key,
    )


def pause_webhook(
    slug: str, number: int, *, idempotency_key: str | None = None
) -> Call[m.WebhookOut]:
    """Send nothing more. Later events are never sent; those that wait are, after a resume."""
    return Call(
        "pause_webhook",
        "POST",
        _path("/api/v1/projects/", slug, "/webhooks/", number, "/pause"),
        answer=m.WebhookOut,
        key=idempotency_key,
    )


def resume_webhook(
    slug: str, number: int, *, idempotency_key: str | None = None
) -> Call[m.WebhookOut]:
    """Send again, also after the receiver answered 410."""
    return Call(
        "resume_webhook",
        "POST",
        _path("/api/v1/projects/", slug, "/webhooks/", number, "/resume"),
        answer=m.WebhookOut,
        key=idempotency_key,
    )


def rotate_webhook(
    slug: str, number: int, *, idempotency_key: str | None = None
) -> Call[m.WebhookSecret]:
    """Make a new secret. For a day, events are signed with the earlier one, too."""
    return Call(
        "rotate_webhook",
        "POST",
        _path("/api/v1/projects/", slug, "/webhooks/", number, "/rotate"),
        answer=m.WebhookSecret,
        key=idempotency_key,
    )


def send_test_event(
    slug: str, number: int, *, idempotency_key: str | None = None
) -> Call[m.DeliveryOut]:
    """Send an event `webhook.test`, which says nothing."""
    return Call(
        "send_test_event",
        "POST",
        _path("/api/v1/projects/", slug, "/webhooks/", number, "/test"),
        answer=m.DeliveryOut,
        key=idempotency_key,
    )


def get_parquet(
    slug: str,
    what: Literal["labels", "votes", "samples", "preferences", "criteria", "people", "trail"],
    *,
    external_id: str = "",
    category: str = "",
    final_label: str = "",
    label: str = "",
    source: str = "",
    selection: str = "",
    annotator: str = "",
    status: str = "",
    run: int | None = None,
    names: bool = False,
    where: list[str] | None = None,
    background: bool = False,
    model: Literal["", "dawid_skene", "hierarchical"] = "",
) -> Call[bytes]:
    """Stream a whole table as a Parquet file, with typed columns. The export goes on record."""
    return Call(
        "get_parquet",
        "GET",
        _path("/api/v1/projects/", slug, "/", what, ".parquet"),
        answer=None,
        query={
            "external_id": external_id,
            "category": category,
            "final_label": final_label,
            "label": label,
            "source": source,
            "selection": selection,
            "annotator": annotator,
            "status": status,
            "run": run,
            "names": names,
            "where": where,
            "background": background,
            "model": model,
        },
    )


def get_table(
    slug: str,
    what: Literal["labels", "votes", "samples", "preferences", "criteria", "people", "trail"],
    kind: Literal["csv", "jsonl", "arrow", "xlsx", "zip"],
    *,
    external_id: str = "",
    category: str = "",
    final_label: str = "",
    label: str = "",
    source: str = "",
    selection: str = "",
    annotator: str = "",
    status: str = "",
    run: int | None = None,
    names: bool = False,
    escape: bool = True,
    where: list[str] | None = None,
    background: bool = False,
    model: Literal["", "dawid_skene", "hierarchical"] = "",
) -> Call[bytes]:
    """Stream a whole table; docs/files.md has its columns. Preferences are no CSV.

    `zip` holds the folder of a data set, as `datasets.load_dataset` opens it once it is unpacked.
    The export goes on record. All but votes and people show judge output or models' names.
    """
    return Call(
        "get_table",
        "GET",
        _path("/api/v1/projects/", slug, "/", what, ".", kind),
        answer=None,
        query={
            "external_id": external_id,
            "category": category,
            "final_label": final_label,
            "label": label,
            "source": source,
            "selection": selection,
            "annotator": annotator,
            "status": status,
            "run": run,
            "names": names,
            "escape": escape,
            "where": where,
            "background": background,
            "model": model,
        },
    )


def get_sizes(
    *,
    win_rate: float | None = None,
    ties: float | None = None,
    accuracy: float | None = None,
    kappa: float | None = None,
    wrong: float | None = None,
    within: float | None = None,
    power: float | None = None,
    epsilon: float | None = None,
    examples: int | None = None,
    votes: int | None = None,
    minutes_per_vote: Decimal | float | str | None = None,
    wage_usd: Decimal | float | str | None = None,
) -> Call[m.SizesOut]:
    """Say how many labels a study needs, from what you expect. No project is needed."""
    return Call(
        "get_sizes",
        "GET",
        _path("/api/v1/sizes"),
        answer=m.SizesOut,
        query={
            "win_rate": win_rate,
            "ties": ties,
            "accuracy": accuracy,
            "kappa": kappa,
            "wrong": wrong,
            "within": within,
            "power": power,
            "epsilon": epsilon,
            "examples": examples,
            "votes": votes,
            "minutes_per_vote": minutes_per_vote,
            "wage_usd": wage_usd,
        },
    )


def list_teams(*, limit: int = 50, cursor: str = "") -> Call[m.Page[m.TeamOut]]:
    """List your teams with their people. A superuser gets all teams."""
    return Call(
        "list_teams",
        "GET",
        _path("/api/v1/teams"),
        answer=m.Page[m.TeamOut],
        query={"limit": limit, "cursor": cursor},
    )


def set_team_people(
    *, idempotency_key: str | None = None, **body: Unpack[m.TeamIn]
) -> Call[m.TeamOut]:
    """Make a team of people of your projects, or change the people and tags of yours."""
    return Call(
        "set_team_people",
        "POST",
        _path("/api/v1/teams"),
        answer=m.TeamOut,
        key=idempotency_key,
        body=body,
    )


def remove_team(number: int, *, idempotency_key: str | None = None) -> Call[m.TeamDeletedOut]:
    """Delete one of your teams. Its people stay in their projects and rounds."""
    return Call(
        "remove_team",
        "POST",
        _path("/api/v1/teams/", number, "/delete"),
        answer=m.TeamDeletedOut,
        key=idempotency_key,
    )


def change_name_of_team(
    number: int, *, idempotency_key: str | None = None, **body: Unpack[m.TeamNewNameIn]
) -> Call[m.TeamOut]:
    """Rename one of your teams. Rounds that asked it keep the people that they asked."""
    return Call(
        "change_name_of_team",
        "POST",
        _path("/api/v1/teams/", number, "/rename"),
        answer=m.TeamOut,
        key=idempotency_key,
        body=body,
    )


def _path(*parts: object) -> str:
    # A slug with a slash in it would be another address.
    return "".join(quote(str(part), safe="/" if n % 2 == 0 else "") for n, part in enumerate(parts))
