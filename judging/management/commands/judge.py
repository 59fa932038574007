"""`manage.py judge`: estimate, start or resume a run, and work on it in this process."""

import time
from argparse import ArgumentTypeError
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from judging.core import leases
from judging.core.commands import (
    FairJudgeCommand,
    add_project,
    add_subset,
    decimal_argument,
    names_subset,
    positive,
)
from judging.core.errors import Failed, Interrupted, UserError
from judging.core.formatting import count, duration, number_of
from judging.dataset.subsets import ALL, subset_from
from judging.projects.access import project_for_command
from judging.runs import lifecycle
from judging.runs.endpoints import ModelNotChosen
from judging.runs.engine import recording
from judging.runs.engine.batches import BatchPump
from judging.runs.engine.progress import progress_of
from judging.runs.engine.pump import Pump
from judging.runs.engine.rereading import older, reparse
from judging.runs.engine.working import work_on
from judging.runs.forms.portia import PARTS, TOKENS, WITHOUT, PortiaOptions
from judging.runs.models import UNREAD_CALLS, Form, Method, Parse, Run, find_run
from judging.runs.pages.start_form import LARGEST_SEED, MOST_USD
from judging.runs.planning.agenda import replay_run
from judging.runs.planning.estimate import RunEstimate, estimate_run
from judging.runs.planning.start import CONCURRENCY, LOCAL_MAX_TOKENS, MAX_TOKENS, K, start_run
from judging.runs.templates import template_from

OF_CHOICE = ("permutations", "ids", "band", "shots", "scale", "shots_from", "shots_random")
OF_PORTIA = ("parts", "tokens", "unsplit_first", "without")


def template_named(text: str) -> str | Path:
    return Path(text) if text == "-" or text.endswith(".toml") else text


def add_judge_arguments(parser: CommandParser) -> None:
    parser.add_argument("--endpoint", help="the name of an endpoint, as the operator configured it")
    parser.add_argument(
        "--model", help="default: FAIRJUDGE_JUDGE_MODEL, or else the endpoint's only model"
    )
    parser.add_argument(
        "--method",
        choices=[m for m in Method.values if m != Method.IMPORTED],
        help=f"default: {Method.MEC_BPC}, evidence first in both orders",
    )
    parser.add_argument(
        "--form", choices=Form.values, help=f"what the judge is asked for; default: {Form.SCORE}"
    )
    parser.add_argument(
        "--template",
        metavar="NAME|FILE.toml",
        type=template_named,
        help="a template of FairJudge or of the project, or a file; - is stdin; default: that of "
        "the form",
    )
    parser.add_argument(
        "--criteria",
        metavar="TEXT",
        help="form criteria: the criteria's names, such as accuracy,tone; default: the project's. "
        "Form pointwise: names, such as fluency,relevance. Other forms: the text that replaces "
        "{criteria} in the template",
    )
    parser.add_argument(
        "--json-replies",
        type=yes_or_no,
        metavar="yes|no",
        help="ask for replies by a JSON schema if the endpoint supports it; default: yes if the "
        "template asks for JSON",
    )
    parser.add_argument("--k", type=positive, help=f"samples in each order; default: {K}")
    parser.add_argument(
        "--max-tokens",
        type=positive,
        help=f"max tokens per sample; default: {MAX_TOKENS}, or {LOCAL_MAX_TOKENS} locally",
    )
    parser.add_argument(
        "--price", type=price, metavar="IN,OUT", help="USD per million prompt and completion tokens"
    )


def add_choice_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--permutations",
        type=positive,
        metavar="1|2|3|4",
        help="choice: X0; X0 and X2 (default); X0 to X2; or X0 to X3",
    )
    parser.add_argument("--ids", metavar="A,B", help="choice: the two option IDs")
    parser.add_argument(
        "--band", type=amount, metavar="B", help="choice: a probability within B of ½ is a tie"
    )
    parser.add_argument("--scale", metavar="LOW,HIGH", help="pointwise: the range of scores")
    parser.add_argument(
        "--shots-from",
        metavar="RUN",
        help="pointwise: put the items on which RUN was most biased into the prompt, with "
        "people's scores",
    )
    parser.add_argument(
        "--shots-random",
        action="store_true",
        # None tells that the flag wasn't given: a resumed run accepts none that would change it.
        default=None,
        help="with --shots-from: show as many training items at random instead, for comparison",
    )
    parser.add_argument(
        "--shots",
        type=whole,
        metavar="0..3",
        help="choice: how many solved examples are shown first",
    )


def add_portia_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--parts", type=positive, metavar="N", help=f"PORTIA: parts per response; default: {PARTS}"
    )
    parser.add_argument(
        "--tokens",
        choices=TOKENS,
        help="PORTIA: what the similarity of parts is based on; default: words",
    )
    parser.add_argument(
        "--unsplit-first",
        action="store_true",
        default=None,
        help="PORTIA: show the whole responses first, and parts after that",
    )
    parser.add_argument(
        "--without", choices=WITHOUT, help="PORTIA: leave out one kind of alignment"
    )


def template_file(options: dict[str, Any]) -> dict[str, Any]:
    """Return the template and form of a file. The file says which form it is for."""
    name = options["template"]
    if not isinstance(name, Path):
        return {}
    template = template_from(name)
    return {"template": template, "form": options["form"] or template.form.value}


def portia_options(options: dict[str, Any]) -> dict[str, Any]:
    chosen = {name: options[name] for name in OF_PORTIA if options[name] is not None}
    return {"portia": PortiaOptions(**chosen)} if chosen else {}


def add_pace_arguments(parser: CommandParser) -> None:
    parser.add_argument("--name", metavar="RUN", help="default: its model and method")
    parser.add_argument(
        "--seed", type=seed, help="repeats the order of equal ranks; default: random"
    )
    parser.add_argument(
        "--temperature",
        type=amount,
        help="default: 1, so that samples differ; 0 if probabilities are read",
    )
    parser.add_argument(
        "--budget", type=amount, metavar="USD", help="pause before more than this is spent"
    )
    parser.add_argument(
        "--concurrency", type=positive, help=f"requests at the same time; default: {CONCURRENCY}"
    )
    parser.add_argument("--rpm", type=positive, help="max requests per minute")
    parser.add_argument("--tpm", type=positive, help="max tokens per minute")
    parser.add_argument(
        "--unread-calls",
        type=whole,
        metavar="N",
        help="pause if none of the first N calls brings a verdict; 0: never; default: "
        f"{UNREAD_CALLS}",
    )


def yes_or_no(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ArgumentTypeError(f"{text!r} is neither yes nor no")
    return text == "yes"


def whole(text: str) -> int:
    return 0 if text == "0" else positive(text)


def seed(text: str) -> int:
    # The largest seed has ten digits, and Python refuses to convert thousands.
    if not text.isdecimal() or len(text) > 10 or int(text) > LARGEST_SEED:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 0 to {LARGEST_SEED}")
    return int(text)


def amount(text: str) -> Decimal:
    value = decimal_argument(text)
    if not 0 <= value <= MOST_USD:
        raise ArgumentTypeError(f"{text!r} is not an amount up to {MOST_USD}")
    return value


def price(text: str) -> tuple[Decimal, Decimal]:
    prompt, comma, completion = text.partition(",")
    if not comma:
        raise ArgumentTypeError("give two prices, such as 2.50,10")
    return amount(prompt), amount(completion)


State = Run.State
# `--resume` goes on with such a run, and repeats no answer.
RESUMABLE = (State.PAUSED, State.PAUSING, State.QUEUED, State.RUNNING)
JUDGE = (
    *("endpoint", "model", "method", "form", "template", "k", "max_tokens", "price", "criteria"),
    "json_replies",
)
MODE = ("batch", "adaptive", "cache_marks")
CONFIDENCE = 0.95
PACE = (
    *("name", "seed", "temperature", "budget", "concurrency", "rpm", "tpm", "unread_calls"),
    "reuse",
)
# Options that a run keeps from its start.
# A repeated sample may need more tokens, and a paused run more money. All else makes another run.
FIXED = {*MODE, *OF_CHOICE, *OF_PORTIA, *JUDGE, *PACE} - {"max_tokens", "budget"}
# Options that --resume accepts if they say what the run already has.
KEPT = {"endpoint", "model", "method", "form", "k", *PACE} - {"reuse"}


class Command(FairJudgeCommand):
    reads = ("examples", "template")
    help = "Ask a judge about every pair of a project or a part of it, or resume a run."

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        add_judge_arguments(parser)
        add_choice_arguments(parser)
        add_portia_arguments(parser)
        add_pace_arguments(parser)
        add_subset(parser)
        parser.add_argument(
            "--reuse",
            action="store_true",
            default=None,
            help="copy answers to identical calls of the project's other runs, at no cost",
        )
        parser.add_argument(
            "--cache-marks",
            action="store_true",
            default=None,
            help="mark what prompts share, for Anthropic's models behind gateways",
        )
        parser.add_argument(
            "--batch",
            action="store_true",
            default=None,
            help="send the calls as batches: half the price, within 24 hours",
        )
        parser.add_argument(
            "--adaptive",
            nargs="?",
            type=float,
            const=CONFIDENCE,
            metavar="CONFIDENCE",
            help="stop asking about an example once its label is clear; default confidence: "
            f"{CONFIDENCE}; with --resume RUN --estimate: what this would have saved in RUN",
        )
        parser.add_argument("--background", action="store_true", help="leave the work to a worker")
        parser.add_argument(
            "--estimate", action="store_true", help="print an estimate of the cost, and stop"
        )
        parser.add_argument("--resume", metavar="RUN", help="the run's number or name, or latest")
        parser.add_argument(
            "--reparse", action="store_true", help="with --resume: read the stored replies again"
        )
        parser.add_argument(
            "--retry",
            metavar="STATUS",
            action="append",
            default=[],
            choices=sorted(lifecycle.RETRIABLE),
            help="with --resume: repeat samples with this status; errors are always repeated",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.judge(options)
        except ModelNotChosen as error:
            # Pages show this error, too, so it can't name the flag itself.
            raise UserError(f"{error} The flag is --model.") from None

    def judge(self, options: dict[str, Any]) -> None:
        check_given(options)
        project = project_for_command(options["project"])
        names = (*JUDGE, *MODE, *OF_CHOICE)
        judge = {name: options[name] for name in names if options[name] is not None}
        judge |= portia_options(options) | template_file(options)
        subset = subset_from(options) if names_subset(options) else ALL
        if options["resume"] and subset != ALL:
            raise UserError(
                "A run keeps the examples with which it was started. Nothing was sent. Start a new "
                "run for other examples."
            )
        pace = {name: options[name] for name in PACE if options[name] is not None}
        if options["resume"] and options["adaptive"] and options["estimate"]:
            run = find_run(project, options["resume"])
            saved = replay_run(run, options["adaptive"])
            self.stdout.write(str(saved))
            self.tell(
                {
                    "project": project.slug,
                    "run": run.number,
                    "samples": saved.samples,
                    "asked": saved.asked,
                    "saved": saved.saved,
                    "agreement": saved.agreement.as_json(),
                }
            )
        elif options["resume"]:
            self.resume(find_run(project, options["resume"]), options)
        elif options["estimate"]:
            # These say how a run works, and change nothing of what it costs.
            for name in ("seed", "unread_calls"):
                pace.pop(name, None)
            estimate = estimate_run(project, subset=subset, **judge, **pace)
            self.stdout.write(estimate_text(estimate))
            self.tell({"project": project.slug} | asdict(estimate))
        else:
            background = options["background"]
            run = start_run(project, None, background=background, subset=subset, **judge, **pace)
            self.stdout.write(f"Run {run.number} ({run.name}): {run.model} at {run.endpoint}.")
            if background:
                self.tell(document_of(run))
            else:
                self.work(run)

    def resume(self, run: Run, options: dict[str, Any]) -> None:
        check_fixed(run, options)
        if options["reparse"]:
            with self.progress("Reading", older(run).count()) as bar:
                counts = reparse(run, lambda counts: bar.move_to(counts.read), bar.note_ranked)
            self.stdout.write(
                f"{count(counts.read)} {'reply' if counts.read == 1 else 'replies'} read again, "
                f"{count(counts.changed)} differently."
            )
            if not options["retry"]:
                self.tell(document_of(run) | {"read": counts.read, "changed": counts.changed})
                return
        # If its holder has died on the way, nobody else would bring the run to that state.
        if run.state in (State.PAUSING, State.CANCELLING):
            recording.recover(run)
        self.wait_for_holder(run)
        lifecycle.resume(
            run,
            retry={Parse.Status.ERROR, *options["retry"]},
            max_tokens=options["max_tokens"],
            budget=options["budget"],
            background=options["background"],
        )
        if options["background"]:
            self.stdout.write(f"Run {run.number} ({run.name}) waits for a worker.")
            self.tell(document_of(run))
        else:
            self.work(run)

    def wait_for_holder(self, run: Run) -> None:
        """Wait until no other process works on the run. A dead one of this machine doesn't."""
        run.refresh_from_db()
        told = False
        free = Run.objects.filter(pk=run.pk)
        while not free.filter(leases.abandoned(run)).exists() or lifecycle.helpers(run.pk):
            if not told:
                who = run.holder or "another worker"
                self.stderr.write(f"Waiting for {who}, which is working on run {run.name} …")
                told = True
            time.sleep(1)
            run.refresh_from_db()

    def work(self, run: Run) -> None:
        before = progress_of(run)

        def show(pump: Pump | BatchPump) -> None:
            bar.grow_to(before.expected + pump.store.added)
            bar.move_to(before.settled + pump.store.settled, pump.note)

        with self.progress("Judging", before.expected) as bar:
            if not work_on(run, report=show, say=self.stderr.write, at_keyboard=True):
                raise UserError(f"Run {run.name} is held by another process. Nothing was sent.")
            after = progress_of(run)
            bar.move_to(after.settled)
        for line in summary(run, after):
            self.stdout.write(line)
        run.refresh_from_db()
        self.tell(document_of(run))
        if after.state != State.DONE:
            # The exit code tells a script whether the run can be resumed.
            kind = Interrupted if after.state in RESUMABLE else Failed
            raise kind(after.reason or f"Run {run.name} is {run.get_state_display()}.")


def check_given(options: dict[str, Any]) -> None:
    """Refuse combinations of options of which some would do nothing."""
    if options["resume"] is None and (options["reparse"] or options["retry"]):
        raise UserError("--reparse and --retry go with --resume RUN. Nothing was started.")
    asks = [name for name in ("max_tokens", "budget") if options[name] is not None]
    asks += ["background"] if options["background"] else []
    if options["reparse"] and asks and not options["retry"]:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in asks)
        raise UserError(
            f"--reparse sends no requests, so it can't be combined with {flags}. Nothing was "
            "changed. To repeat samples after it, name their status with --retry."
        )


def check_fixed(run: Run, options: dict[str, Any]) -> None:
    chosen = {name: options[name] for name in FIXED if options[name] is not None}
    others = [name for name in chosen if name not in KEPT or chosen[name] != getattr(run, name)]
    if others:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in sorted(others))
        raise UserError(
            f"A run keeps the options with which it was started. {flags} would change them. "
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
        lines.append(f"Calls lost: {count(progress.calls_lost)}. They may have been billed.")
    lines += [
        f"Batch {batch.remote_id or '(not sent yet)'}: {batch.state}, "
        f"{number_of(batch.calls, 'call')}."
        for batch in progress.batches
    ]
    if progress.reused:
        lines.append(f"{number_of(progress.reused, 'sample')} reused from other runs, at no cost.")
    lines += [*progress.notices, *progress.notes]
    cost = "unknown" if progress.spent_usd is None else f"{progress.spent_usd:.6f} USD"
    held = progress.reserved_usd
    more = f" Up to {held:.6f} USD more may still be billed." if held else ""
    lines.append(f"Cost of run {run.number} ({run.name}): {cost}.{more}")
    return lines


def document_of(run: Run) -> dict[str, Any]:
    """What `--json` prints of a run."""
    progress = progress_of(run)
    return {
        "project": run.project.slug,
        "run": run.number,
        "name": run.name,
        "endpoint": run.endpoint,
        "model": run.model,
        "state": str(progress.state),
        "reason": progress.reason,
        "samples": progress.statuses,
        "expected": progress.expected,
        "settled": progress.settled,
        "calls_lost": progress.calls_lost,
        "errors": [[complaint.calls, complaint.message] for complaint in progress.complaints],
        "usd": progress.spent_usd,
        "reused": progress.reused,
    }


def estimate_text(estimate: RunEstimate) -> str:
    calls = count(estimate.n_calls)
    if estimate.n_calls_most != estimate.n_calls:
        calls += f" to {count(estimate.n_calls_most)}"
    cost = "unknown, because the price is unknown"
    if estimate.usd is not None and estimate.usd_most is not None:
        cost = f"about {estimate.usd:.4f} USD; at most {estimate.usd_most:.4f} USD"
    time_needed = "unknown"
    if estimate.batch_hours is not None:
        time_needed = f"up to {estimate.batch_hours} hours"
    elif estimate.seconds is not None:
        time_needed = f"about {duration(estimate.seconds)}"
    lines = [
        f"{estimate.model} at {estimate.endpoint}: {number_of(estimate.n_examples, 'example')}"
        f"{f' {estimate.frame}' if estimate.frame else ''}, "
        f"{calls} calls.",
        f"Tokens: about {count(estimate.prompt_tokens)} prompt, "
        f"{count(estimate.completion_tokens)} completion.",
        f"{number_of(estimate.reused, 'sample')} reused from other runs, at no cost."
        if estimate.reused
        else "",
        f"Cost: {cost}.",
        estimate.of_budget,
        f"Time: {time_needed}.",
        estimate.basis,
    ]
    return "\n".join(filter(None, lines))
