"""Rounds of people, and who belongs to a project."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from fairjudge_client import calls
from fairjudge_client import models as m
from fairjudge_client.progress import Progress
from fairjudge_client.session import MOST_ROWS, Session, pages, saved
from fairjudge_client.steps import Call, F, Resource, Rows, Steps, method, rows_method
from fairjudge_client.waiting import other_end, waited


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
    def practice(self) -> Steps[m.PracticeOut]:
        """Return how people did in a training or a qualification."""
        return (yield from self._session.ask(calls.get_practice(self.project, self.number)))

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
            raise other_end(f"Round {self.number}", self.state, "")
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
    def cancel(self) -> Steps[Round[F]]:
        """Undo what is still being written: the whole round, more items, or more votes."""
        return (yield from self._changed(calls.cancel_round(self.project, self.number)))

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

    @rows_method
    def undecided(self) -> Rows[m.UndecidedOut]:
        """Iterate over the items that wait for a decision."""
        return pages(
            self._session,
            lambda cursor: calls.list_undecided(
                self.project, self.number, limit=MOST_ROWS, cursor=cursor
            ),
        )

    @rows_method
    def decisions(self) -> Rows[m.DecisionOut]:
        """Iterate over the decisions, the oldest first. The last one about an item holds."""
        return pages(
            self._session,
            lambda cursor: calls.list_decisions(
                self.project, self.number, limit=MOST_ROWS, cursor=cursor
            ),
        )

    @method
    def undo_decision(self, decision: int) -> Steps[m.DecisionOut]:
        """Take your own last decision on an item back, by its `id`."""
        sent = calls.undo_decision(self.project, self.number, decision)
        return (yield from self._session.ask(sent))

    @rows_method
    def flags(self) -> Rows[m.FlagOut]:
        """Iterate over what annotators say is wrong with items."""
        return pages(
            self._session,
            lambda cursor: calls.list_flags(
                self.project, self.number, limit=MOST_ROWS, cursor=cursor
            ),
        )

    @method
    def settle_flag(self, flag: int) -> Steps[m.FlagOut]:
        """Note that somebody has dealt with a flag, by its `id`."""
        sent = calls.settle_flag_of(self.project, self.number, flag)
        return (yield from self._session.ask(sent))

    # People of a panel. It needs the role of an owner.

    @method
    def crowd(self) -> Steps[m.CrowdOut]:
        """Return the crowd link with its terms, and how many people are in which state."""
        return (yield from self._session.ask(calls.get_crowd(self.project, self.number)))

    @method
    def set_crowd(self, **terms: Unpack[m.CrowdIn]) -> Steps[m.CrowdOut]:
        """Make the crowd link, or change its terms. What you leave out stays as it is."""
        sent = calls.set_crowd(self.project, self.number, **terms)
        return (yield from self._session.ask(sent))

    @method
    def withdraw_crowd(self) -> Steps[m.CrowdOut]:
        """Let nobody new in. People who are at work may finish."""
        return (yield from self._session.ask(calls.withdraw_crowd(self.project, self.number)))

    @rows_method
    def submissions(self) -> Rows[m.SubmissionOut]:
        """Iterate over who came by the crowd link. Only the file has the panel's IDs."""
        return pages(
            self._session,
            lambda cursor: calls.list_submissions(
                self.project, self.number, limit=MOST_ROWS, cursor=cursor
            ),
        )

    @method
    def save_submissions(self, path: str | Path) -> Steps[Path]:
        """Write the CSV by which people are paid. Each download goes on record."""
        call = calls.get_submissions_file(self.project, self.number)
        return (yield from saved(self._session, call, Path(path)))

    @method
    def mark_submissions(self, file: Any, *, aside: bool = False) -> Steps[m.MarkedOut]:
        """Take the panel's CSV file of approved, rejected and returned submissions, by its path.

        `aside` also puts the votes of rejected submissions aside.
        """
        sent = calls.mark_submissions(self.project, self.number, file, aside=aside)
        return (yield from self._session.ask(sent))

    @method
    def put_rejected_aside(self) -> Steps[m.VotesAsideOut]:
        """Put the votes of all rejected submissions aside."""
        sent = calls.put_rejected_aside(self.project, self.number)
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

    @rows_method
    def members(self) -> Rows[m.MemberOut]:
        """Iterate over who belongs to the project, with their roles."""
        return pages(
            self._session,
            lambda cursor: calls.list_members(self.project, limit=MOST_ROWS, cursor=cursor),
        )

    @method
    def change_role(self, member: int, **role: Unpack[m.RoleIn]) -> Steps[m.MemberOut]:
        """Change the `role` of a member, by their `id`. A project keeps an owner."""
        return (yield from self._session.ask(calls.change_member(self.project, member, **role)))

    @method
    def remove(self, member: int) -> Steps[m.MemberOut]:
        """Remove a member by their `id`. Their votes stay."""
        return (yield from self._session.ask(calls.remove_member(self.project, member)))

    @method
    def password_link(self, member: int) -> Steps[m.PasswordLinkOut]:
        """Make a link by which a member sets a new password, by their `id`. It is told once."""
        return (yield from self._session.ask(calls.new_password_link(self.project, member)))

    @method
    def invite(self, **terms: Unpack[m.InvitationIn]) -> Steps[m.InvitationOut]:
        """Make a link that lets people join. Anybody who has it can."""
        return (yield from self._session.ask(calls.new_invitation(self.project, **terms)))

    @method
    def add_team(self, team: str) -> Steps[m.TeamAddedOut]:
        """Make the people of one of your teams annotators of the project."""
        return (yield from self._session.ask(calls.add_team(self.project, team=team)))

    @rows_method
    def teams(self) -> Rows[m.TeamOut]:
        """Iterate over your teams, of all your projects."""
        return pages(self._session, lambda cursor: calls.list_teams(limit=MOST_ROWS, cursor=cursor))

    @method
    def rename_team(self, team: int, name: str) -> Steps[m.TeamOut]:
        """Rename one of your teams, by its `id`."""
        return (yield from self._session.ask(calls.change_name_of_team(team, name=name)))

    @method
    def delete_team(self, team: int) -> Steps[m.TeamDeletedOut]:
        """Delete one of your teams, by its `id`. Its people stay in their projects and rounds."""
        return (yield from self._session.ask(calls.remove_team(team)))

    @method
    def set_team(self, **team: Unpack[m.TeamIn]) -> Steps[m.TeamOut]:
        """Make a team, or change the people and tags of yours: `name`, `people`."""
        return (yield from self._session.ask(calls.set_team_people(**team)))

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


def _is_complete(info: m.RoundOut | m.StandingOut) -> bool:
    """Return True if people have nothing more to do. A round that learns selects more first."""
    if not isinstance(info, m.StandingOut) or info.items is None or info.stage == "learn":
        return False
    return (info.done or 0) + (info.undecided or 0) >= info.items


def _show_round(line: Progress, info: m.StandingOut) -> None:
    undecided = f"{info.undecided} undecided" if info.undecided else ""
    state = info.state if info.state != "open" else ""
    line.show(f"round {info.number}", info.votes_given, info.votes_asked, state, undecided)
