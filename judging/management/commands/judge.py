"""`manage.py judge`: start or resume a run, and work on it here or in a worker."""

import time
from typing import Any

from django.core.management.base import CommandParser

from judging.errors import UserError
from judging.figures import count, duration, number_of
from judging.management.arguments import add_project
from judging.management.base import FairJudgeCommand
from judging.management.judge_arguments import (
    OF_CHOICE,
    OF_PORTIA,
    add_choice_arguments,
    add_judge_arguments,
    add_pace_arguments,
    add_portia_arguments,
    portia_options,
    template_file,
)
from judging.models.calls import Parse
from judging.models.runs import Run
from judging.projects import project_for_command
from judging.runs import lease, recovery, states
from judging.runs.batch_pump import BatchPump
from judging.runs.estimate import RunEstimate, estimate_run
from judging.runs.finding import find_run
from judging.runs.listing import ModelNotChosen
from judging.runs.progress import progress_of
from judging.runs.pump import Pump
from judging.runs.reparse import older, reparse
from judging.runs.replay import replay_run
from judging.runs.starting import start_run
from judging.runs.working import work_on

State = Run.State
JUDGE = ("endpoint", "model", "method", "form", "template", "k", "max_tokens", "price", "criteria")
MODE = ("batch", "adaptive")
CONFIDENCE = 0.95
PACE = ("name", "seed", "temperature", "budget", "concurrency", "rpm", "tpm")
# What a run keeps as it was started.
FIXED = {*MODE, *OF_CHOICE, *OF_PORTIA, *JUDGE, *PACE} - {"max_tokens", "budget"}
# Of these, saying again what the run has changes nothing.
KEPT = {"endpoint", "model", "method", "form", "k", *PACE}


class Command(FairJudgeCommand):
    help = "Ask a judge about every pair of a project, or resume a run."

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        add_judge_arguments(parser)
        add_choice_arguments(parser)
        add_portia_arguments(parser)
        add_pace_arguments(parser)
        parser.add_argument(
            "--batch",
            action="store_true",
            default=None,
            help="hand the calls in as batches: half the price, within 24 hours",
        )
        parser.add_argument(
            "--adaptive",
            nargs="?",
            type=float,
            const=CONFIDENCE,
            metavar="CONFIDENCE",
            help=f"stop asking about an example once its label is clear, at {CONFIDENCE} unless "
            "given; with --resume RUN --estimate: what it would have saved there",
        )
        parser.add_argument("--background", action="store_true", help="leave it to a worker")
        parser.add_argument("--estimate", action="store_true", help="say what it costs, and stop")
        parser.add_argument("--resume", metavar="RUN", help="a run's number, its name, or latest")
        parser.add_argument(
            "--reparse", action="store_true", help="with --resume: read stored replies again"
        )
        parser.add_argument(
            "--retry",
            metavar="STATUS",
            action="append",
            default=[],
            choices=sorted(states.RETRIABLE),
            help="with --resume: ask again what ended so; errors always are",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.judge(options)
        except ModelNotChosen as error:
            raise UserError(f"{error} The flag is --model.") from None

    def judge(self, options: dict[str, Any]) -> None:
        check_given(options)
        project = project_for_command(options["project"])
        names = (*JUDGE, *MODE, *OF_CHOICE)
        judge = {name: options[name] for name in names if options[name] is not None}
        judge |= portia_options(options) | template_file(options)
        pace = {name: options[name] for name in PACE if options[name] is not None}
        if options["resume"] and options["adaptive"] and options["estimate"]:
            run = find_run(project, options["resume"])
            self.stdout.write(str(replay_run(run, options["adaptive"])))
        elif options["resume"]:
            self.resume(find_run(project, options["resume"]), options)
        elif options["estimate"]:
            pace.pop("seed", None)
            self.stdout.write(estimate_text(estimate_run(project, **judge, **pace)))
        else:
            background = options["background"]
            run = start_run(project, None, background=background, **judge, **pace)
            self.stdout.write(f"Run {run.number} ({run.name}): {run.model} at {run.endpoint}.")
            if not background:
                self.work(run)

    def resume(self, run: Run, options: dict[str, Any]) -> None:
        check_fixed(run, options)
        if options["reparse"]:
            with self.progress("Reading", older(run).count()) as bar:
                counts = reparse(run, lambda counts: bar.move_to(counts.read))
            self.stdout.write(
                f"{count(counts.read)} replies read again, {count(counts.changed)} differently."
            )
            if not options["retry"]:
                return
        if run.state in (State.PAUSING, State.CANCELLING):
            recovery.recover(run)
        self.wait_for_holder(run)
        states.resume(
            run,
            retry={Parse.Status.ERROR, *options["retry"]},
            max_tokens=options["max_tokens"],
            budget=options["budget"],
            background=options["background"],
        )
        if options["background"]:
            self.stdout.write(f"Run {run.number} ({run.name}) waits for a worker.")
        else:
            self.work(run)

    def wait_for_holder(self, run: Run) -> None:
        """Another process may be at it; one of this machine that is dead is not waited for."""
        run.refresh_from_db()
        told = False
        while not Run.objects.filter(lease.abandoned(run), pk=run.pk).exists():
            if not told:
                self.stderr.write(f"Waiting: run {run.name} is held by {run.holder} …")
                told = True
            time.sleep(1)
            run.refresh_from_db()

    def work(self, run: Run) -> None:
        before = progress_of(run)

        def show(pump: Pump | BatchPump) -> None:
            bar.grow_to(before.expected + pump.desk.added)
            bar.move_to(before.settled + pump.desk.settled, pump.note)

        with self.progress("Judging", before.expected) as bar:
            if not work_on(run, report=show, say=self.stderr.write, at_keyboard=True):
                raise UserError(f"Run {run.name} is being worked on elsewhere. Nothing was sent.")
            after = progress_of(run)
            bar.move_to(after.settled)
        for line in summary(run, after):
            self.stdout.write(line)
        if after.state != State.DONE:
            raise UserError(after.reason or f"Run {run.name} is {run.get_state_display()}.")


def check_given(options: dict[str, Any]) -> None:
    """Refuse what would do something else than it says."""
    if options["resume"] is None and (options["reparse"] or options["retry"]):
        raise UserError("--reparse and --retry go with --resume RUN. Nothing was started.")
    asks = [name for name in ("max_tokens", "budget") if options[name] is not None]
    asks += ["background"] if options["background"] else []
    if options["reparse"] and asks and not options["retry"]:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in asks)
        raise UserError(
            f"--reparse asks nothing, so it can't go with {flags}. Nothing was changed. To ask "
            "again after it, name what with --retry."
        )


def check_fixed(run: Run, options: dict[str, Any]) -> None:
    given = {name: options[name] for name in FIXED if options[name] is not None}
    others = [name for name in given if name not in KEPT or given[name] != getattr(run, name)]
    if others:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in sorted(others))
        raise UserError(
            f"A run keeps the way in which it was started, and {flags} would change it. "
            "Nothing was sent. Start a new run for that."
        )
    if options["estimate"]:
        raise UserError("--estimate is about a new run. Nothing was sent. Leave --resume out.")


def summary(run: Run, progress: Any) -> list[str]:
    counts = ", ".join(f"{count(n)} {status}" for status, n in progress.statuses.items()) or "none"
    lines = [f"Samples: {counts}, of {count(progress.expected)}."]
    lines += [
        f"Errors: {complaint.calls} × {complaint.message}" for complaint in progress.complaints
    ]
    if progress.calls_lost:
        lines.append(f"Calls lost: {count(progress.calls_lost)}, possibly billed.")
    lines += [
        f"Batch {batch.remote_id or '(not handed in yet)'}: {batch.state}, {batch.calls} calls."
        for batch in progress.batches
    ]
    lines += progress.notes
    cost = "unknown" if progress.spent_usd is None else f"{progress.spent_usd:.6f} USD"
    held = progress.reserved_usd
    more = f" Up to {held:.6f} USD more may still be billed." if held else ""
    lines.append(f"Cost of run {run.number} ({run.name}): {cost}.{more}")
    return lines


def estimate_text(estimate: RunEstimate) -> str:
    calls = count(estimate.n_calls)
    if estimate.n_calls_most != estimate.n_calls:
        calls += f" to {count(estimate.n_calls_most)}"
    cost = "unknown, as the price is"
    if estimate.usd is not None and estimate.usd_most is not None:
        cost = f"about {estimate.usd:.4f} USD; at most {estimate.usd_most:.4f} USD"
    time_needed = "not known"
    if estimate.batch_hours is not None:
        time_needed = f"up to {estimate.batch_hours} hours"
    elif estimate.seconds is not None:
        time_needed = f"about {duration(estimate.seconds)}"
    lines = [
        f"{estimate.model} at {estimate.endpoint}: {number_of(estimate.n_examples, 'example')}, "
        f"{calls} calls.",
        f"Tokens: about {count(estimate.prompt_tokens)} prompt, "
        f"{count(estimate.completion_tokens)} completion.",
        f"Cost: {cost}.",
        estimate.of_budget,
        f"Time: {time_needed}.",
        estimate.basis,
    ]
    return "\n".join(filter(None, lines))
