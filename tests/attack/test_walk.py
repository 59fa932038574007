"""The walk of roles, methods and swapped ids; and that it notices a hole when there is one."""

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class
from django.http import HttpResponse
from django.test import Client
from django.urls import clear_url_caches, include, path, set_urlconf

from annotation.models import Flag, Invitation
from annotation.people.annotators import annotator_of
from fairjudge_site import urls
from judging.dataset.models import Example, Import
from judging.projects.access import project_for
from judging.projects.models import Membership, Role
from judging.runs.models import JudgeTemplate, Run
from tests.attack.walk import CANARY, METHODS, Findings, Target, Walk, api_targets, chosen, named
from tests.factories import make_member, make_project, make_user
from tests.test_access_walk import NAMES, arguments_of

pytestmark = [pytest.mark.databases, pytest.mark.django_db]
# What opens a link has a capability, whoever it is.
CAPABILITIES = ("invite", "password_reset_confirm")
STRANGERS = ("nobody", "annotator", "reviewer", "observer", "researcher", "owner")
OURS = {"annotation", "annotation.results", "fairjudge_site", "judging"}


@pytest.fixture
def world(project, owner, researcher, annotator, outsider, settings, tmp_path):
    """Two projects with one of everything. All texts of the other one hold the canary."""
    settings.MEDIA_ROOT = tmp_path
    other = make_project("other")
    Membership.objects.create(project=other, user=outsider, role=Role.OWNER)
    annotator_of(other, outsider)
    own = arguments_of(project, annotator, tmp_path / "own")
    theirs = arguments_of(other, make_member(other, name="theirs"), tmp_path / "theirs")
    Example.objects.filter(project=other).update(
        question=CANARY, response_1=CANARY, response_2=CANARY, category=CANARY
    )
    for model, fields in {
        Run: ("name",), JudgeTemplate: ("name", "text"), Invitation: ("note",), Import: ("reason",),
    }.items():  # fmt: skip
        model.objects.filter(project=other).update(**dict.fromkeys(fields, CANARY))
    Flag.objects.filter(item__round__project=other).update(reason=CANARY)
    other.name = other.description = CANARY
    other.save()
    users = {
        "nobody": None, "outsider": outsider, "annotator": annotator, "researcher": researcher,
        "reviewer": make_member(project, Role.REVIEWER, "rene"),
        "observer": make_member(project, Role.OBSERVER, "oona"),
        "owner": owner, "superuser": make_user("sue", is_superuser=True),
    }  # fmt: skip
    return users, other, own, theirs


def walked(world, targets, methods=("get", "post")) -> Findings:
    users, other, _, theirs = world
    others = {name: theirs[name] for name in theirs if name not in CAPABILITIES}
    others |= {target.name: others_of(target, other) for target in targets if target.name[0] == "a"}
    return Walk(users, other, STRANGERS).walk(targets, others, methods)


def others_of(target: Target, other) -> dict:
    return dict.fromkeys({"slug", "project"} & target.arguments.keys(), other.slug)


def test_nobody_reads_or_changes_a_project_that_is_not_theirs(world, whole, figure):
    own = world[2]
    targets = [named(name, own[name]) for name in sorted(NAMES)]
    targets += api_targets("vicuna", {})
    found = walked(world, chosen(targets, None if whole else 3, seed=7), METHODS)
    figure("walk: addresses", found.operations)
    figure("walk: requests (roles × methods × swapped ids)", found.requests)
    figure("walk: holes", len(found.holes))
    assert found.holes == []
    assert found.requests >= 3 * 6 * 7


def test_every_command_refuses_what_is_not_there_in_a_sentence(world, figure, capsys, tmp_path):
    """Commands are the operator's. A wrong name must still never reach another project."""
    asked = 0
    for name, app in sorted(get_commands().items()):
        if app not in OURS:
            continue
        parser = load_command_class(app, name).create_parser("manage.py", name)
        takes = {action.dest for action in parser._actions}
        if "project" not in takes:
            continue
        wrong = [
            ["no-such-project"],
            ["../other"],
            ["other/../vicuna"],
            ["a" * 10_000],
            ["\x1b[2J"],
        ]
        if "run" in takes:
            wrong += [["vicuna", "--run", CANARY], ["vicuna", "--run", "999999999999999999999"]]
        needed = sum(1 for a in parser._actions if not a.option_strings and a.nargs != "*") - 1
        for words in wrong:
            asked += 1
            given = [words[0], *[str(tmp_path / "none.csv")] * max(needed, 0), *words[1:]]
            if (action := next((a for a in parser._actions if a.nargs == "+"), None)) and (
                action.dest != "project" and not needed
            ):
                given.append(str(tmp_path / "none.csv"))
            with pytest.raises((CommandError, SystemExit)):
                call_command(name, *given)
            said = "".join(capsys.readouterr())
            assert CANARY not in said.replace(words[-1], "")
            assert "Traceback" not in said
    figure("walk: commands with a wrong project or run", asked)
    assert asked > 20


# Planted holes


def forgetful(request, slug, **rest):
    """As a view that fetches by hand, and forgets who asks."""
    example = Example.objects.filter(project__slug=slug).first()
    return HttpResponse(example.question)


def careful(request, slug, **rest):
    project = project_for(request.user, slug).project
    return HttpResponse(Example.objects.filter(project=project).first().question)


def meddling(request, slug, pk):
    """As a view that checks the project, and then takes any row of the site."""
    project_for(request.user, slug)
    if request.method == "POST":
        Example.objects.filter(pk=pk).update(category="changed")
    return HttpResponse("done")


@pytest.fixture
def mounted(settings):
    """Puts a view at an address of the API."""

    def mount(route, view):
        class Conf:
            urlpatterns = [path("api/v1/", include([path(route, view)])), *urls.urlpatterns]

        settings.ROOT_URLCONF = Conf
        clear_url_caches()

    yield mount
    clear_url_caches()
    set_urlconf(None)


def planted() -> list[Target]:
    """The operation that a test mounted, which comes before those that the API has."""
    return api_targets("vicuna", {})[:1]


def test_a_new_operation_of_the_api_is_walked_without_being_listed(world, mounted):
    mounted("p/<slug:slug>/examples", careful)
    (target,) = planted()
    assert target.address() == "/api/v1/p/vicuna/examples"
    assert walked(world, [target]).holes == []


def test_a_view_without_the_permission_helper_is_found(world, mounted):
    mounted("p/<slug:slug>/examples", forgetful)
    holes = walked(world, planted()).holes
    assert any("outsider gets /api/v1/p/vicuna/examples" in hole for hole in holes)
    assert any("owner gets /api/v1/p/other/" in h and "another project's text" in h for h in holes)


def test_a_view_that_takes_any_row_is_found(world, mounted):
    mounted("p/<slug:slug>/examples/<int:pk>", meddling)
    (target,) = planted()
    pk = world[3]["example"]["pk"]
    found = Walk(world[0], world[1], STRANGERS).walk([target], {target.name: {"pk": pk}}, ["post"])
    assert any("owner posts" in hole and "changes another project" in hole for hole in found.holes)


def test_an_error_of_the_server_is_found(world, mounted):
    def broken(request):
        raise ZeroDivisionError

    mounted("broken", broken)
    assert Client(raise_request_exception=False).get("/api/v1/broken").status_code in (302, 500)
    assert any("fails with 500" in hole for hole in walked(world, planted()).holes)
