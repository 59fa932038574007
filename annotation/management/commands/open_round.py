"""open_round PROJECT: select examples for people to label, and open a round with them."""

from decimal import Decimal
from typing import Any

from django.core.management.base import CommandParser

from annotation.models import Annotator, Item, Round
from annotation.people.annotators import annotator_of, voters_of
from annotation.people.teams import read_shares, read_tags, team_named
from annotation.rounds import growing
from annotation.rounds.opening import (
    LEARN,
    PASS_MARK,
    REPEAT_AFTER,
    Practice,
    RoundSettings,
    open_round,
    read_check_rules,
    round_named,
)
from annotation.rounds.progress import any_aside, out_of_reach
from judging.core.commands import (
    FairJudgeCommand,
    add_project,
    add_subset,
    decimal_argument,
    names_subset,
)
from judging.core.errors import Misuse, UserError
from judging.core.formatting import count, number_of
from judging.dataset.subsets import ALL, subset_from
from judging.projects.access import project_for_command
from judging.projects.models import Project, Role
from judging.runs.models import Run, find_run

_MOST_ITEMS = 1_000_000


class Command(FairJudgeCommand):
    reads = ("examples",)
    help = "Open a round: select the examples on which the judge contradicts itself most."

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        parser.add_argument("--run", help="number, name or `latest`; default: the primary run")
        _add_selection(parser)
        add_subset(parser)
        _add_certificate(parser)
        parser.add_argument(
            "--annotator",
            action="append",
            default=[],
            metavar="NAME",
            help="hand out to this login only; may be repeated (default: to everybody)",
        )
        parser.add_argument(
            "--team",
            action="append",
            default=[],
            metavar="NAME",
            help="ask only the people of this team of an owner; may be repeated",
        )
        parser.add_argument(
            "--tag",
            action="append",
            default=[],
            help="only people of the teams, or of any team, who have this tag; may be repeated",
        )
        parser.add_argument(
            "--share",
            action="append",
            default=[],
            metavar="NAME=30%",
            help="ask this login for a share of the votes, or with NAME=40 for up to 40 items; "
            "may be repeated",
        )
        parser.add_argument("--limit", type=int, help="max items per person")
        parser.add_argument(
            "--check-rule",
            action="append",
            default=[],
            metavar="RULE",
            help="what is done about people who fail attention checks: warn, pause, or stop and "
            "put their votes aside. Example: “after 5 checks, below 60 %% right: stop”; may be "
            "repeated",
        )
        parser.add_argument(
            "--after",
            type=int,
            metavar="ROUND",
            help="people label in this round only after they pass that training or qualification",
        )
        parser.add_argument(
            "--repeat",
            type=int,
            default=0,
            metavar="PERCENT",
            help="percent of a person's pairs that come again, to see if people agree with "
            "themselves",
        )
        parser.add_argument(
            "--repeat-after",
            type=int,
            default=REPEAT_AFTER,
            metavar="PAIRS",
            help=f"how many other pairs come in between (default {REPEAT_AFTER})",
        )
        parser.add_argument("--tries", type=int, help="tries at a qualification (default 1)")
        parser.add_argument(
            "--pass-mark",
            type=decimal_argument,
            metavar="PERCENT",
            help=f"percent of right answers needed to pass a qualification (default {PASS_MARK})",
        )
        parser.add_argument(
            "--seed", type=int, help="the same seed repeats a selection and its order"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        project = project_for_command(options["project"])
        if options["resume"] or options["cancel"]:
            self._go_on(project, options["resume"], options["cancel"])
            return
        how = ("beta", "budget", "all", "train", "qualify")
        if all(options[name] in (None, False) for name in how):
            # A clause asks all that --where or --examples choose again, so it needs no size.
            if options["clause"] is None:
                raise Misuse("Choose how much is labelled: --beta, --budget or --all.")
            options["all"] = True
        practice = _practice(options)
        run = None if practice else _run(project, options["run"], needed=not options["all"])
        settings = RoundSettings(
            beta=options["beta"],
            budget=options["budget"],
            everything=options["all"],
            votes=options["votes"],
            audit=options["audit"],
            partial=options["partial"],
            paper_mode=options["ties"] == "paper",
            seed=options["seed"],
            # Decimals are exact until the end: as floats, 1 − 0.95 is a little more than 0.05.
            epsilon=float(options["epsilon"] / 100),
            alpha=float(1 - options["confidence"] / 100),
            looks=tuple(options["looks"]),
            cite=options["cite"],
            learn=_learn(options["route"], options["learn"]),
            annotators=[_annotator(project, name) for name in options["annotator"]],
            limit=_limit(options["limit"]),
            teams=[team_named(project, name) for name in options["team"]],
            tags=read_tags(options["tag"]),
            shares=_shares(project, options["share"]),
            check_rules=read_check_rules("\n".join(options["check_rule"])),
            subset=subset_from(options) if names_subset(options) else ALL,
            practice=practice,
            clause=options["clause"] or "",
            repeat_percent=options["repeat"],
            repeat_after=options["repeat_after"],
            after=round_named(project, options["after"]) if options["after"] else None,
        )
        with self.progress("Items written") as bar:
            round_ = open_round(project, None, run, settings, advance=bar.advance)
        self._tell(round_)

    def _go_on(self, project: Project, resume: int | None, cancel: int | None) -> None:
        """Go on with a change of a round that was cut off, or undo it."""
        number = resume or cancel
        round_ = Round.every.filter(project=project, number=number).first()
        if round_ is None:
            raise UserError(f"{project.slug} has no round {number}. Nothing was changed.")
        if cancel:
            growing.cancel(round_, None)
            self.stdout.write(f"Cancelled. Round {number} is as it was before.")
            self.tell({"project": project.slug, "round": number, "cancelled": True})
            return
        work = growing.current_work(round_)
        if work is None:
            raise UserError(f"Nothing of round {number} was cut off. Nothing was changed.")
        with self.progress("Items", work.n_total) as bar:
            done = growing.work_on(work.pk, bar.advance)
        if not done:
            raise UserError(f"Another process is working on round {number}. Wait until it is done.")
        now = Round.every.filter(pk=round_.pk).first()
        if now is None or now.state == Round.State.CLOSED:
            gone = "is gone, since opening it was cancelled"
            self.stdout.write(f"Round {number} {gone if now is None else 'is closed'}.")
            self.tell({"project": project.slug, "round": number, "cancelled": now is None})
        else:
            self._tell(now)

    def _tell(self, round_: Round) -> None:
        items = Item.objects.filter(round=round_).count()
        complete = Item.objects.filter(round=round_, state=Item.State.COMPLETE).count()
        state = round_.get_state_display()
        if round_.is_practice:
            named = f"Round {round_.number} ({round_.get_kind_display()})"
            self.stdout.write(f"{named} is {state}: {number_of(items, 'pair')} with known labels.")
            opened = {"project": round_.project.slug, "round": round_.number, "kind": round_.kind}
            self.tell(opened | {"items": items, "seed": round_.seed, **round_.parameters})
            return
        votes = number_of(round_.votes_per_item, "vote")
        self.stdout.write(
            f"Round {round_.number} is {state}: {number_of(items, 'item')}, {votes} each"
            + (f"; earlier votes complete {count(complete)} of them." if complete else ".")
        )
        if round_.stage == Round.Stage.LEARN:
            later = sum(round_.selections.values_list("n_items", flat=True)) - items
            self.stdout.write(
                f"Once all of them are settled, FairJudge selects {count(later)} more by what it "
                "learned about the judge. The round then continues while a worker runs."
            )
        voters, newcomers = voters_of(round_)
        too_many = out_of_reach(round_, voters, newcomers, aside=any_aside(round_))
        self.tell(
            {
                "project": round_.project.slug,
                "round": round_.number,
                "items": items,
                "votes": round_.votes_per_item,
                "complete": complete,
                "stage": str(round_.stage),
                "seed": round_.seed,
                "out_of_reach": too_many,
            }
        )
        if too_many:
            self.stderr.write(
                f"Only {number_of(len(voters) + newcomers, 'annotator')} can vote, so "
                f"{number_of(too_many, 'item')} can't get all votes. Invite more annotators under "
                "Settings → People and invitations, or close the round early. Votes given by then "
                "are merged."
            )


def _add_selection(parser: CommandParser) -> None:
    how_much = parser.add_mutually_exclusive_group()
    how_much.add_argument("--beta", type=decimal_argument, help="percent of all examples")
    how_much.add_argument("--budget", type=decimal_argument, help="USD for people's votes")
    how_much.add_argument("--all", action="store_true", help="label everything")
    how_much.add_argument(
        "--train", action="store_true", help="training: say after each pair what is right and why"
    )
    how_much.add_argument(
        "--qualify",
        type=int,
        metavar="PAIRS",
        help="a qualification with this number of pairs in each try",
    )
    how_much.add_argument(
        "--resume",
        type=int,
        metavar="ROUND",
        help="finish opening or changing this round after it was cut off",
    )
    how_much.add_argument(
        "--cancel",
        type=int,
        metavar="ROUND",
        help="undo opening, changing or closing this round while that is still under way",
    )
    parser.add_argument(
        "--clause",
        metavar="TEXT",
        help="add this to the guidelines, and ask everything that --where or --examples choose "
        "again, under the new version of the protocol; earlier votes are kept",
    )
    parser.add_argument("--votes", type=int, default=3, help="votes per example (default 3)")
    parser.add_argument(
        "--audit", type=int, default=0, help="examples drawn at random from the rest"
    )
    parser.add_argument(
        "--route",
        choices=["bpde", "learned"],
        default="bpde",
        help="rank by BPDE, or by a score learned from a random sample of labels",
    )
    parser.add_argument(
        "--learn", type=int, help=f"size of that sample, which counts towards β (default {LEARN})"
    )
    parser.add_argument(
        "--ties",
        choices=["default", "paper"],
        default="default",
        help="order of examples with equal BPDE: by further criteria, or as imported",
    )
    parser.add_argument("--partial", action="store_true", help="the run need not be finished")


def _add_certificate(parser: CommandParser) -> None:
    parser.add_argument(
        "--epsilon",
        type=decimal_argument,
        default=Decimal(10),
        help="percent of wrong labels that the audit may certify (default 10)",
    )
    parser.add_argument(
        "--confidence",
        type=decimal_argument,
        default=Decimal(95),
        help="confidence of the certificate, in percent (default 95)",
    )
    parser.add_argument(
        "--looks",
        type=int,
        nargs="+",
        default=[],
        help="audit sizes at which to check the certificate; default: at the end",
    )
    parser.add_argument(
        "--cite",
        choices=Round.Cite.values,
        default=Round.Cite.NARROWER,
        help="which win rate to cite: the narrower one of “judge and people” and “people alone”, "
        "or the one of the judge that is calibrated by people (default: narrower)",
    )


def _practice(options: dict[str, Any]) -> Practice | None:
    pairs, mark, tries = (options[name] for name in ("qualify", "pass_mark", "tries"))
    if pairs is None and (mark is not None or tries is not None):
        raise UserError("--pass-mark and --tries need --qualify. No round was opened.")
    if options["train"]:
        return Practice(Round.Kind.TRAINING)
    if pairs is None:
        return None
    mark, tries = PASS_MARK if mark is None else mark, 1 if tries is None else tries
    return Practice(Round.Kind.QUALIFICATION, pairs, mark, tries)


def _annotator(project: Project, name: str) -> Annotator:
    member = project.memberships.select_related("user").filter(user__username=name).first()
    if member is None:
        raise UserError(f"{name} is not a member of {project.slug}. No round was opened.")
    if member.role == Role.OBSERVER:
        raise UserError(f"{name} is an observer and doesn't label. No round was opened.")
    return annotator_of(project, member.user)


def _shares(project: Project, shares: list[str]) -> dict[Annotator, Any]:
    names = {share.rpartition("=")[0].strip() for share in shares} - {""}
    return read_shares(shares, {name: _annotator(project, name) for name in names})


def _limit(limit: int | None) -> int | None:
    if limit is not None and not 1 <= limit <= _MOST_ITEMS:
        raise UserError(
            f"Choose a limit from 1 to {_MOST_ITEMS} items per person. No round was opened."
        )
    return limit


def _learn(route: str, learn: int | None) -> int:
    if route == "bpde":
        if learn is not None:
            raise UserError("--learn needs --route learned.")
        return 0
    if learn is not None and learn < 1:
        raise UserError("To learn, at least 1 example must be labelled first.")
    return LEARN if learn is None else learn


def _run(project: Project, text: str | None, *, needed: bool) -> Run | None:
    if text:
        return find_run(project, text)
    run = project.primary_run
    if run is None and needed:
        begun = project.runs.order_by("-number").first()
        if begun is not None:
            raise UserError(
                f"No run of {project.slug} is finished, so none can rank. Finish it first: "
                f"manage.py judge {project.slug} --resume {begun.number}"
            )
        raise UserError(
            f"{project.slug} has no run to rank by. Judge first: manage.py judge {project.slug}"
        )
    return run
