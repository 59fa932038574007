"""How long the whole report takes, with the database, and how much memory it needs.

    python -m benchmarks.analysis [EXAMPLES]

Aim: 100,000 examples with 6 samples each, a fifth of them labelled by three people and 1,000 more
audited, in under 10 s and 1 GB; the results page from the kept report in under a second.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES, K, VOTES, AUDIT = 100_000, 3, 3, 1_000
MOST_SECONDS, MOST_SECONDS_KEPT, MOST_SECONDS_PAGE, MOST_MIB = 10, 1, 0.3, 1024
CHUNK = 10_000
LABELS = {1: "win", 0: "tie", -1: "lose"}


def prepare(n: int) -> None:
    """A project whose judge errs more often where its samples disagree."""
    from judging.core.commands import prepare_database
    from judging.projects.models import Project

    prepare_database()
    project = Project.objects.create(slug="benchmark", name="benchmark")
    rng = np.random.default_rng(20230529)
    truth = rng.choice([1, 0, -1], n, p=[0.45, 0.1, 0.45])
    noise = rng.normal(0, rng.uniform(0.2, 3, n)[:, None, None], (n, 2, K))
    difference = np.clip(np.rint(2 * truth[:, None, None] + noise + [[0.5], [-0.5]]), -9, 9)
    examples = write_examples(project, n)
    run = write_run(project, examples, difference.astype(int))
    write_votes(project, run, examples, truth, rng)


def write_examples(project: object, n: int) -> list[int]:
    from judging.dataset.models import Example, Import

    source = Import.objects.create(project=project, number=1, state=Import.State.DONE)
    words = "A sentence of a response that is judged. "
    made = Example.objects.bulk_create(
        (
            Example(
                project=project,
                source=source,
                external_id=f"e{number}",
                number=number,
                question=f"Question {number}?",
                response_1=words * (5 + number % 11),
                response_2=words * (5 + number % 7),
                model_1="maple-7b",
                model_2="birch-3b",
                category=f"category {number % 9}",
            )
            for number in range(n)
        ),
        batch_size=CHUNK,
    )
    return [example.pk for example in made]


def write_run(project: object, examples: list[int], difference: np.ndarray) -> object:
    from django.utils import timezone

    from judging.methods.verdicts.arrays import verdict_arrays
    from judging.runs.models import Method, Run, Verdict

    run = Run.objects.create(
        project=project,
        number=1,
        name="run",
        method=Method.MEC_BPC,
        k=K,
        state=Run.State.DONE,
        ranked_at=timezone.now(),
        seed=1,
    )
    scores = np.stack([difference, np.zeros_like(difference)], axis=3)
    found = verdict_arrays(scores, np.ones(difference.shape, bool))
    rank = np.empty(len(examples), int)
    rank[np.argsort(-found.bpde, kind="stable")] = np.arange(1, len(examples) + 1)
    Verdict.objects.bulk_create(
        (
            Verdict(
                run=run,
                example_id=pk,
                state=Verdict.State.JUDGED,
                label=LABELS[int(found.sign[row])],
                bpde=float(found.bpde[row]),
                gap=float(found.gap[row]),
                rank=int(rank[row]),
                n_valid=2 * K,
                n_asked=2 * K,
            )
            for row, pk in enumerate(examples)
        ),
        batch_size=CHUNK,
    )
    for start in range(0, len(examples), CHUNK):
        write_samples(run, examples[start : start + CHUNK], difference[start : start + CHUNK])
    return run


def write_samples(run: object, examples: list[int], difference: np.ndarray) -> None:
    from django.utils import timezone

    from judging.runs.models import Call, Parse, Sample

    now = timezone.now()
    calls = Call.objects.bulk_create(
        Call(run=run, example_id=pk, part=part, slots=[0, 1, 2], state="done", claimed_at=now)
        for pk in examples
        for part in run.orders
    )
    samples = Sample.objects.bulk_create(
        Sample(call=call, index=slot, slot=slot) for call in calls for slot in range(K)
    )
    Parse.objects.bulk_create(
        Parse(
            sample=sample, version=0, status="valid", score_1=max(d, 0) + 1, score_2=max(-d, 0) + 1
        )
        for sample, d in zip(samples, difference.reshape(-1).tolist(), strict=True)
    )


def write_votes(
    project: object, run: object, examples: list[int], truth: np.ndarray, rng: np.random.Generator
) -> None:
    from decimal import Decimal

    from annotation.models import Annotator, Item, Slot, Vote
    from annotation.rounds.opening import RoundSettings, open_round

    people = [
        Annotator.objects.create(project=project, number=n, name=f"person {n}")
        for n in range(1, VOTES + 1)
    ]
    settings = RoundSettings(beta=Decimal(20), votes=VOTES, audit=AUDIT, seed=1)
    round_ = open_round(project, None, run, settings)
    place = {pk: row for row, pk in enumerate(examples)}
    slots = list(Slot.objects.filter(round=round_).select_related("item").order_by("pk"))
    agreeing = rng.random(len(slots)) < 0.9
    votes = Vote.objects.bulk_create(
        (
            Vote(
                slot=slot,
                item=slot.item,
                example_id=slot.item.example_id,
                protocol=round_.protocol,
                annotator=people[slot.index],
                label=LABELS[int(truth[place[slot.item.example_id]])] if agrees else "tie",
                left_response=1 + slot.pk % 2,
                active_seconds=40.0,
            )
            for slot, agrees in zip(slots, agreeing, strict=True)
        ),
        batch_size=CHUNK,
    )
    for slot, vote in zip(slots, votes, strict=True):
        slot.vote = vote
    Slot.objects.bulk_update(slots, ["vote"], batch_size=500)
    Item.objects.filter(round=round_).update(state=Item.State.COMPLETE)
    round_.no_majority = "tie"
    round_.save()


def measure() -> None:
    """In a process of its own, so that the memory is that of the report."""
    from annotation.results.report.cache import current_report
    from judging.runs.models import Run

    run = Run.objects.select_related("project").get()
    spans = []
    for _ in range(2):
        started, worked = time.perf_counter(), time.process_time()
        report = current_report(run.project, run)
        spans.append((time.perf_counter() - started, time.process_time() - worked))
    pages = {name: page_seconds(run.project, name) for name in PAGES}
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    accuracy = report.methods[-1].accuracy.value
    found = {"first": spans[0], "kept": spans[1], "mib": mib, "accuracy": accuracy}
    found |= {"pages": pages}
    sys.stdout.write(json.dumps(found) + "\n")


PAGES = ("verdict", "trust", "judge", "review", "people", "models", "export")


def page_seconds(project: object, name: str) -> float:
    """Processor time of the second view of a results page: the first one reads its templates."""
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    user, _ = User.objects.get_or_create(username="owner", defaults={"is_superuser": True})
    client = Client(headers={"host": settings.FAIRJUDGE_URL.rpartition("/")[2]})
    client.force_login(user, backend=settings.LOGIN_BACKEND)
    for _ in range(2):
        worked = time.process_time()
        response = client.get(f"/p/{project.slug}/results/{name}")
        assert response.status_code == 200, response.status_code
        worked = time.process_time() - worked
    return worked


def step(name: str, folder: str, *more: str) -> str:
    environment = os.environ | {
        "FAIRJUDGE_DATA": folder,
        "FAIRJUDGE_LOG_LEVEL": "WARNING",
        "DJANGO_SETTINGS_MODULE": "fairjudge_site.settings",
    }
    command = [sys.executable, "-m", "benchmarks.analysis", f"--{name}", *more]
    ended = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return ended.stdout.decode()


def main() -> None:
    if sys.argv[1:2] in (["--prepare"], ["--measure"]):
        import django

        django.setup()
        prepare(int(sys.argv[2])) if sys.argv[1] == "--prepare" else measure()
        return
    n = int(sys.argv[1]) if len(sys.argv) > 1 else EXAMPLES
    with tempfile.TemporaryDirectory() as folder:
        step("prepare", folder, str(n))
        found = json.loads(step("measure", folder))
    (seconds, processor), (kept, _) = found["first"], found["kept"]
    slowest = max(found["pages"], key=found["pages"].get)
    page = found["pages"][slowest]
    fits = seconds <= MOST_SECONDS and kept <= MOST_SECONDS_KEPT and found["mib"] <= MOST_MIB
    fits = fits and page <= MOST_SECONDS_PAGE
    sys.stdout.write(
        f"report on {n:,} × {2 * K}: {seconds:.1f} s (limit {MOST_SECONDS}, processor "
        f"{processor:.1f} s), again {kept:.2f} s (limit {MOST_SECONDS_KEPT}), "
        f"slowest page ({slowest}) {1000 * page:.0f} ms (limit {1000 * MOST_SECONDS_PAGE:.0f}), "
        f"memory {found['mib']:.0f} MiB (limit {MOST_MIB})  {'ok' if fits else 'TOO MUCH'}\n"
    )
    sys.exit(0 if fits else "The report is slower, or needs more memory, than it may.")


if __name__ == "__main__":
    main()
