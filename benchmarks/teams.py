"""Two hundred people in ten teams label one round while it changes under their hands.

    python -m benchmarks.teams [--minutes M] [--people N] [--pace SECONDS] [--postgres URL]

Each person votes every 20 seconds in the mean. Meanwhile ten people join by an invitation and are
put into a team, ten leave the round and come back, five leave the project, the owner pauses the
round for 15 seconds, ten people fail attention checks until their votes are put aside, and a
reviewer decides what has no majority. When the time is over, everybody goes on without a pause
until nothing is left.

Aims: no request is answered otherwise than a person would expect, each item has exactly the votes
that it asks for, none waits for a decision, and p95 of all requests before the end is 150 ms at
most.
"""

import argparse
import http.client
import json
import re
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.annotating.annotators import Person
from benchmarks.annotating.serving import entry, token_in
from benchmarks.annotating.site import environment_of, site
from benchmarks.workspace import ROOT, child, database_of_its_own

TEAMS, VOTES, CHECKS_EACH = 10, 3, 6
JOIN, LEAVE, GO, CARELESS = 10, 10, 5, 10
MOST_MS, PAUSE = 150, 15
RIGHT, WRONG = "the answer that was asked for", "an answer to something else"
PROJECT = "/p/benchmark"


class Teammate(Person):
    """A person who goes on until the round has nothing left for them.

    Attributes:
        is_careless: answers every attention check wrongly.
        breaks: leaves the round once, and comes back.
        goes: leaves the project once half the time is over.
    """

    def __init__(self, port: int, session: str, address: str, until: float, pace: float) -> None:
        super().__init__(port, session, address, until, pace)
        self.is_careless = self.breaks = self.goes = False
        self.half = until - (until - time.monotonic()) / 2
        self.label = Random(f"label {session}")

    def work(self) -> None:
        time.sleep(self.chance.random() * self.pace)
        while (item := self.next_item()) is not None:
            page = self.ask("show", "GET", item)[0]
            while "data-token" in page:
                item = "/annotate/" + token_in(page)
                page = self.label_item(item, page)
                if self.goes and time.monotonic() > self.half:
                    self.ask("leave", "POST", f"{PROJECT}/leave", {"sure": "1"})
                    return
                if self.breaks and time.monotonic() > self.half:
                    self.breaks = False
                    self.ask("leave", "POST", f"{self.address}leave", {})
                    time.sleep(self.pace)
                    self.ask("leave", "POST", f"{self.address}return", {})
                    break

    def next_item(self) -> str | None:
        """Return the address of an item; None when nothing is left for this person."""
        waited = 0.0
        while True:
            text, there = self.ask("next item", "GET", self.address)
            if there:
                return there
            if "paused" in text and not self.is_careless:
                time.sleep(1)
                continue
            # What another person has on the screen may come back while the time runs.
            over = time.monotonic() > self.until
            if (over and waited > 4) or self.is_careless:
                return None
            time.sleep(1 if over else 5)
            waited += over

    def label_item(self, item: str, page: str) -> str:
        """Vote on an item as a browser does, and return the one that was fetched ahead."""
        ahead = self.ask("fetch ahead", "GET", f"{item}/ahead")[0]
        if time.monotonic() < self.until:
            rest = max(0.0, self.until - time.monotonic())
            time.sleep(min(rest, self.chance.expovariate(1 / self.pace)))
        fields = entry(item.rpartition("/")[2]) | {"overall": self.answer_to(page)}
        self.ask("draft", "POST", f"{item}/draft", fields)
        self.ask("submit", "POST", f"{item}/vote", fields)
        return ahead

    def answer_to(self, page: str) -> str:
        if RIGHT not in page:
            return self.label.choices(("left", "right", "tie"), (6, 2, 2))[0]
        is_left = page.index(RIGHT) < page.index(WRONG)
        return "left" if is_left != self.is_careless else "right"

    def ask(
        self, kind: str, method: str, url: str, fields: dict[str, str] | None = None
    ) -> tuple[str, str]:
        try:
            return super().ask(kind, method, url, fields)
        except AssertionError as error:
            # A round that was paused, an item that others completed, a person who was stopped: the
            # screen says so, and goes on to the next item.
            if " 409: " in str(error) or (self.is_careless and " 404: " in str(error)):
                return "", ""
            raise


class Reviewer(Person):
    """Decides whatever waits, until nobody labels any more and nothing waits."""

    def __init__(self, port: int, session: str, until: float, pace: float) -> None:
        super().__init__(port, session, "", until, pace)
        self.all_done = threading.Event()

    def work(self) -> None:
        while True:
            is_last = self.all_done.is_set()
            listed = self.ask("adjudication", "GET", f"{PROJECT}/rounds/1/adjudication")[0]
            waiting = re.search(rf'href="({PROJECT}/rounds/1/items/\d+)">Decide', listed)
            if waiting:
                self.decide_from(waiting[1])
            elif is_last:
                return
            else:
                time.sleep(1)

    def ask(
        self, kind: str, method: str, url: str, fields: dict[str, str] | None = None
    ) -> tuple[str, str]:
        try:
            return super().ask(kind, method, url, fields)
        except AssertionError as error:
            # Votes on it were put aside a moment ago, so that it waits for votes again.
            if kind == "decide" and method == "POST" and " 422: " in str(error):
                return "", ""
            raise

    def decide_from(self, item: str) -> None:
        while item:
            self.ask("decide", "GET", item)
            self.ask("decide", "POST", item, {"first": "1", "choice": "left"})
            shown = self.ask("decide", "GET", item)[0]
            version = re.search(r'name="made_for" value="([^"]*)"', shown)
            said = {"choice": "left", "reason": "Both say it, one says it better."}
            made_for = {"made_for": version[1]} if version else {}
            there = self.ask("decide", "POST", item, said | made_for)[1]
            item = there if "/items/" in there else ""


class Owner(Person):
    """Lets people in, asks the teams again, and pauses the round."""

    def __init__(self, port: int, built: dict[str, Any], until: float, pace: float) -> None:
        super().__init__(port, built["owner"], built["address"], until, pace)
        self.built = built
        self.newcomers = [
            Teammate(port, session, built["address"], until, pace) for session in built["newcomers"]
        ]

    def work(self) -> None:
        third = (self.until - time.monotonic()) / 3
        time.sleep(third)
        for person in self.newcomers:
            person.ask("join", "POST", self.built["join"], {})
        team = {"name": "team 1", "people": [{"user": one} for one in self.built["team"]]}
        self.program("teams", team)
        teams = [f"team {number}" for number in range(1, TEAMS + 1)]
        self.program("projects/benchmark/rounds/1/people", {"teams": teams})
        for person in self.newcomers:
            person.start()
        time.sleep(third)
        self.ask("pause", "POST", f"{PROJECT}/rounds/1/pause", {})
        time.sleep(min(PAUSE, third / 4))
        self.ask("pause", "POST", f"{PROJECT}/rounds/1/resume", {})
        while time.monotonic() < self.until:
            self.ask("follow", "GET", f"{PROJECT}/rounds/1/standing")
            time.sleep(2)
        for person in self.newcomers:
            person.join()
            self.errors += person.errors
            for kind, taken in person.seconds.items():
                self.seconds[kind] += taken

    def program(self, path: str, body: dict[str, Any]) -> None:
        headers = {
            "Authorization": f"Bearer {self.built['token']}", "Content-Type": "application/json",
        }  # fmt: skip
        site = http.client.HTTPConnection("127.0.0.1", self.site.port, timeout=60)
        began = time.perf_counter()
        site.request("POST", f"/api/v1/{path}", json.dumps(body), headers)
        answer = site.getresponse()
        text = answer.read().decode()
        self.seconds["program"].append(time.perf_counter() - began)
        site.close()
        if answer.status != 200:
            raise AssertionError(f"POST {path} was answered {answer.status}: {text[:300]}")


def build(n_items: int, n_people: int) -> dict[str, Any]:
    """Make the project, its people and teams, and open the round."""
    from decimal import Decimal

    from django.core.management import call_command
    from django.db import connection

    from annotation.people.invitations import Terms, invite, link_of
    from annotation.people.teams import set_team
    from annotation.rounds.opening import CheckRule, RoundSettings, open_round
    from annotation.screen.hand import address_of
    from benchmarks.annotating.building import ranked_run, session_of
    from judging.dataset.models import Example
    from judging.projects.models import Project, Role
    from judging.projects.tokens import issue_token
    from tests.factories import make_annotator, make_import, make_member, make_user

    call_command("migrate", verbosity=0, interactive=False)
    project = Project.objects.create(slug="benchmark", name="Benchmark")
    owner, reviewer = (
        make_member(project, Role.OWNER, "owner"),
        make_member(project, Role.REVIEWER, "reviewer"),
    )
    people = [make_annotator(project, f"person-{number}").user for number in range(n_people)]
    newcomers = [make_user(f"newcomer-{number}") for number in range(JOIN)]
    teams: dict[int, list[str]] = defaultdict(list)
    for place, person in enumerate(people):
        teams[place % TEAMS + 1].append(person.username)
    made = [
        set_team(owner, f"team {number}", {name: ["English"] for name in names})
        for number, names in teams.items()
    ]
    project.primary_run = run = ranked_run(project, n_items)
    project.save()
    source = make_import(project)
    Example.objects.bulk_create(
        Example(
            project=project, source=source, external_id=f"check-{number}",
            number=n_items + number, question=f"Which of them is right ({number})?",
            response_1=f"This is {RIGHT}.", response_2=f"This is {WRONG}.",
            is_check=True, gold_label="win",
        )
        for number in range(n_people * CHECKS_EACH // VOTES)
    )  # fmt: skip
    rules = (CheckRule(2, Decimal(80), "warn"), CheckRule(3, Decimal(50), "stop"))
    settings = RoundSettings(everything=True, votes=VOTES, seed=7, teams=made, check_rules=rules)
    round_ = open_round(project, owner, run, settings)
    if connection.vendor == "postgresql":
        connection.cursor().execute("ANALYZE")
    invitation = invite(project, owner, Terms(uses=JOIN))
    link = link_of(invitation)
    return {
        "address": address_of(round_),
        "join": link[link.index("/join/") :],
        "owner": session_of(owner),
        "reviewer": session_of(reviewer),
        "token": issue_token(owner, "teams", ["read", "write"])[1],
        "team": [*teams[1], *(person.username for person in newcomers)],
        "people": [session_of(person) for person in people],
        "newcomers": [session_of(person) for person in newcomers],
    }


def found_in_the_end() -> dict[str, int]:
    from django.db.models import Count, Q

    from annotation.models import Intervention, Item, Vote

    asked = Item.objects.exclude(selection__kind="check").annotate(
        n=Count("slots__vote", filter=Q(slots__vote__aside_at=None))
    )
    return {
        "items": asked.count(),
        "above": asked.filter(n__gt=VOTES).count(),
        "below": asked.filter(n__lt=VOTES).count(),
        "waiting": asked.filter(state=Item.State.ADJUDICATE).count(),
        "votes": Vote.every.count(),
        "aside": Vote.every.filter(aside_at__isnull=False).count(),
        "acted": Intervention.objects.count(),
    }


def drive(port: int, seconds: float, pace: float) -> dict[str, Any]:
    """Be all the people at once, until nothing is left for anybody."""
    built = json.load(sys.stdin)
    threading.stack_size(512 * 1024)
    until = time.monotonic() + seconds
    people: list[Any] = [
        Teammate(port, session, built["address"], until, pace) for session in built["people"]
    ]
    for place, person in enumerate(people):
        person.is_careless = place < CARELESS
        person.breaks = CARELESS <= place < CARELESS + LEAVE
        person.goes = CARELESS + LEAVE <= place < CARELESS + LEAVE + GO
    reviewer = Reviewer(port, built["reviewer"], until, pace)
    people.append(Owner(port, built, until, pace))
    everybody = [*people, reviewer]
    for one in everybody:
        one.start()
    time.sleep(seconds)
    taken: dict[str, list[float]] = defaultdict(list)
    for one in everybody:
        for kind, each in list(one.seconds.items()):
            taken[kind] += list(each)
    for one in people:
        one.join()
    reviewer.all_done.set()
    reviewer.join()
    return {"seconds": taken, "errors": [error for one in everybody for error in one.errors]}


class Bench:
    """One site under the load; collects what misses its aim."""

    def __init__(self, where: str) -> None:
        self.where, self.missed = where, 0

    def tell(self, what: str, fits: bool = True) -> None:
        self.missed += not fits
        sys.stdout.write(f"{self.where:10}  {what}{'' if fits else '  TOO MUCH'}\n")
        sys.stdout.flush()

    def run(self, environment: dict[str, str], folder: Path, options: argparse.Namespace) -> None:
        seconds, me = options.minutes * 60, "benchmarks.teams"
        n_items = max(200, round(options.people * seconds / options.pace / VOTES))
        built = json.dumps(child(environment, me, "--build", n_items, options.people))
        log = folder / "log.txt"
        with site(environment, ROOT, log) as (port, _):
            found = child(environment, me, "--drive", port, seconds, options.pace, given=built)
        for error in found["errors"][:5]:
            self.tell(f"error: {error}", fits=False)
        for kind, taken in [*found["seconds"].items(), ("all", None)]:
            each = (
                np.concatenate([*found["seconds"].values()]) if taken is None else np.array(taken)
            )
            p50, p95 = np.percentile(each * 1000, [50, 95])
            limit = f"; limit {MOST_MS}" if taken is None else ""
            fits = taken is not None or p95 <= MOST_MS
            self.tell(
                f"{kind:12} {len(each):>7,} {p50:5.0f} / {p95:5.0f} ms (p50 / p95{limit})", fits
            )
        end = child(environment, me, "--count", given=built)
        is_whole = not (end["above"] or end["below"] or end["waiting"])
        self.tell(
            f"{end['items']:,} items: {end['above']} with more and {end['below']} with fewer votes "
            f"than asked, {end['waiting']} that wait for a decision; {end['votes']:,} votes, of "
            f"which {end['aside']} were put aside by checks, which acted {end['acted']} times",
            is_whole and end["acted"] > 0 and end["aside"] > 0,
        )
        if "Traceback" in (said := log.read_text()):
            self.tell(f"a failure in the log: {said[-500:]}", fits=False)


def step(options: argparse.Namespace) -> Any:
    """What is done in a process of its own."""
    if options.drive:
        port, seconds, pace = options.drive
        return drive(int(port), seconds, pace)
    import django

    django.setup()
    return build(*options.build) if options.build else found_in_the_end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--pace", type=float, default=20, help="seconds between a person's votes")
    parser.add_argument("--postgres", metavar="URL", help="use this server instead of SQLite")
    parser.add_argument("--build", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--drive", type=float, nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build or options.drive or options.count:
        sys.stdout.write(json.dumps(step(options)) + "\n")
        return
    bench = Bench("PostgreSQL" if options.postgres else "SQLite")
    with (
        tempfile.TemporaryDirectory() as folder,
        database_of_its_own(options.postgres or "") as own,
    ):
        environment = environment_of(folder, own) | {"FAIRJUDGE_API_RATE": "1000000"}
        bench.run(environment, Path(folder), options)
    sys.exit("Two hundred people wait too long, or not all came out right." if bench.missed else 0)


if __name__ == "__main__":
    main()
