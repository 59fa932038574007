"""A large round in which some work is done already, and people with open sessions."""

from random import Random
from typing import Any

VOTES = 3
CHUNK = 5_000
# What models write: prose, lists, emphasis, now and then code or a formula.
WORDS = """the a of to and in that it is was for on with as at by this not but from they we an or
which one you had all were when there can more if no out so said what up its about into than them
answer method result sample model measure because however therefore together between""".split()
CODE = "```python\ndef mean(values):\n    return sum(values) / len(values)  # of a list\n```"


def build(n_examples: int, beta: int, n_people: int) -> dict[str, Any]:
    """Returns the round's address, and a session cookie for its owner and for each person."""
    from decimal import Decimal

    from django.core.management import call_command
    from django.db import connection

    from annotation.rounds.opening import RoundSettings, open_round
    from annotation.screen.hand import address_of
    from judging.projects.models import Project, Role
    from tests.factories import make_annotator, make_member

    call_command("migrate", verbosity=0, interactive=False)
    project = Project.objects.create(slug="benchmark", name="Benchmark")
    owner = make_member(project, Role.OWNER, "owner")
    people = [make_annotator(project, f"person-{number}") for number in range(n_people)]
    run = ranked_run(project, n_examples)
    project.primary_run = run
    project.save()
    settings = RoundSettings(beta=Decimal(beta), votes=VOTES, seed=7)
    round_ = open_round(project, owner, run, settings)
    begin(round_, people[:VOTES])
    if connection.vendor == "postgresql":
        # As its autovacuum does within a minute; before, it plans as if the tables were empty.
        connection.cursor().execute("ANALYZE")
    return {
        "address": address_of(round_),
        "round": round_.pk,
        "owner": session_of(owner),
        "people": [session_of(person.user) for person in people],
    }


def session_of(user: Any) -> str:
    from django.conf import settings
    from django.test import Client

    client = Client()
    client.force_login(user, backend=settings.LOGIN_BACKEND)
    return str(client.cookies[settings.SESSION_COOKIE_NAME].value)


def response(chance: Random, characters: int) -> str:
    """Markdown of about this length, unlike any other."""
    parts: list[str] = []
    while sum(map(len, parts)) < characters:
        line = " ".join(chance.choices(WORDS, k=45)).capitalize() + "."
        kind = chance.random()
        if kind < 0.1:
            parts.append(CODE)
        elif kind < 0.15:
            parts.append(r"It follows that $\frac{a_1 + b_2}{n} \le \sqrt{c}$ holds.")
        elif kind < 0.4:
            parts.append("\n".join(f"- **{word}** and {word}" for word in line.split()[:6]))
        else:
            parts.append(line)
    return "\n\n".join(parts)[:characters]


def ranked_run(project: Any, n: int) -> Any:
    from judging.dataset.models import Example
    from judging.runs.models import Run, Verdict
    from tests.factories import make_import, make_run

    source = make_import(project)
    chance = Random(20230529)
    for start in range(0, n, CHUNK):
        Example.objects.bulk_create(
            Example(
                project=project,
                source=source,
                external_id=f"e{number}",
                number=number,
                question=" ".join(chance.choices(WORDS, k=12)).capitalize() + "?",
                response_1=response(chance, 1500),
                response_2=response(chance, 1500),
                model_1="maple-7b",
                model_2="birch-3b",
            )
            for number in range(start, min(start + CHUNK, n))
        )
    run: Run = make_run(project)
    keys = Example.objects.filter(project=project).values_list("pk", flat=True)
    fields = {"state": "judged", "label": "win", "cs_1": 8, "cs_2": 7, "gap": 1}
    Verdict.objects.bulk_create(
        (
            Verdict(run=run, example_id=key, bpde=chance.random(), n_valid=6, n_asked=6, **fields)
            for key in keys
        ),
        batch_size=CHUNK,
    )
    return run


def begin(round_: Any, people: list[Any]) -> None:
    """A quarter of the round done, by as many people as an item takes votes."""
    from django.db.models import OuterRef, Subquery
    from django.utils import timezone

    from annotation.models import Draft, Item, Seat, Slot, Vote

    items = list(Item.objects.filter(round=round_).order_by("position"))
    done = items[: len(items) // 4]
    last = done[-1].position
    for index, person in enumerate(people):
        slots = Slot.objects.filter(round=round_, index=index, position__lte=last)
        Vote.objects.bulk_create(
            (
                Vote(
                    slot=slot,
                    item_id=slot.item_id,
                    example_id=slot.item.example_id,
                    protocol_id=round_.protocol_id,
                    annotator=person,
                    label="win",
                    answer={"overall": "left"},
                    left_response=1,
                    active_seconds=30.0,
                    submitted_at=timezone.now(),
                )
                for slot in slots.select_related("item")
            ),
            batch_size=CHUNK,
        )
        vote = Vote.objects.filter(slot=OuterRef("pk")).values("pk")
        slots.update(annotator=person, vote=Subquery(vote))
        Draft.objects.bulk_create(
            (
                Draft(item=item, annotator=person, token=f"{item.pk:032}{index}", left_response=1)
                for item in done
            ),
            batch_size=CHUNK,
        )
        Seat.objects.create(round=round_, annotator=person, cursor=last, n_shown=len(done))
    Item.objects.filter(round=round_, position__lte=last).update(state=Item.State.COMPLETE)


def votes_above(items: Any, most: int) -> int:
    """How many items have more votes than they ask for, cast in them or counted in them."""
    from django.db.models import Count, Q

    counted = items.annotate(
        cast=Count("annotations", distinct=True), counted=Count("slots__vote", distinct=True)
    )
    return int(counted.filter(Q(cast__gt=most) | Q(counted__gt=most)).count())
