"""put_aside PROJECT ROUND PERSON: let the votes that a person gave in a round no longer count."""

from typing import Any

from django.core.management.base import CommandParser
from django.db.models import Q

from annotation.models import Annotator, Round
from annotation.votes import aside
from judging.core.commands import FairJudgeCommand, add_project
from judging.core.errors import UserError
from judging.core.formatting import number_of
from judging.projects.access import project_for_command
from judging.projects.models import Project


class Command(FairJudgeCommand):
    help = "Put a person's votes of a round aside, or count them again."

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        parser.add_argument("round", type=int, help="the round's number")
        parser.add_argument("person", help="a name, or a pseudonym such as annotator-3")
        parser.add_argument("--reason", help="why; kept in the audit trail")
        parser.add_argument(
            "--stop", action="store_true", help="also give them no more pairs of the round"
        )
        parser.add_argument("--undo", action="store_true", help="count the votes again")
        parser.add_argument("--release", action="store_true", help="let the person label again")

    def handle(self, *args: Any, **options: Any) -> None:
        project = project_for_command(options["project"])
        round_ = Round.objects.filter(project=project, number=options["round"]).first()
        if round_ is None:
            raise UserError(f"{project.slug} has no round {options['round']}.")
        person = _person(project, options["person"])
        done: dict[str, Any] = {"project": project.slug, "round": round_.number}
        done |= {"annotator": person.pseudonym}
        undoes = options["undo"] or options["release"]
        if undoes and (options["reason"] or options["stop"]):
            raise UserError("--reason and --stop don't go with --undo and --release.")
        if options["undo"]:
            aside.check_put_aside(round_, person)
        if options["release"]:
            was_held = aside.let_go_on(round_, person, None)
            outcome = "can label again" if was_held else "is not warned any more"
            self.stdout.write(f"{person.pseudonym} {outcome} in round {round_.number}.")
        if options["undo"]:
            again = aside.count_again(round_, person, None)
            self.stdout.write(
                f"{number_of(again.votes, 'vote')} counted again; still put aside, because other "
                f"people gave or are giving all votes on their pairs: {again.still_aside}."
            )
            done |= {"counted_again": again.votes, "still_aside": again.still_aside}
        if not undoes:
            n = aside.put_aside(round_, person, None, options["reason"] or "", stop=options["stop"])
            self.stdout.write(f"{number_of(n, 'vote')} put aside.")
            done |= {"put_aside": n, "stopped": options["stop"]}
        self.tell(done)


def _person(project: Project, named: str) -> Annotator:
    people = Annotator.objects.filter(project=project)
    number = named.removeprefix("annotator-")
    wanted = Q(name=named)
    if number != named and number.isdecimal() and len(number) < 10:
        wanted |= Q(number=int(number))
    matching = list(people.filter(wanted)[:2])
    if len(matching) != 1:
        raise UserError(
            f"{project.slug} has no annotator “{named}”. Use a name, or a pseudonym of an export."
            if not matching
            else f"“{named}” is the name of one person and the pseudonym of another. Use the other "
            "name of the person you mean."
        )
    return matching[0]
