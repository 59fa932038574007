"""Every address of the site, asked for by everybody: who is let in, and who learns nothing.

The table names each address once. A new one that is not in it fails the test.
"""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit
from zlib import crc32

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from django.test import Client
from django.urls import get_resolver, reverse
from django.utils import timezone
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from annotation.models import Adjudication, Flag, Job
from annotation.people import crowds
from annotation.people.annotators import annotator_of
from annotation.people.invitations import Terms, invite, link_of
from annotation.people.teams import make_team
from annotation.queue.queue import claim_next
from annotation.results.planner.registration import Plan, register
from annotation.rounds.opening import RoundSettings, open_round
from annotation.screen.hand import address_of
from fairjudge_site.api.urls import urlpatterns
from judging.dataset.models import ExampleImage, Image, Import
from judging.dataset.subsets import change_tag
from judging.dataset.uploads import record_import, refused_path
from judging.projects.accounts import password_link
from judging.projects.mail import confirming_link, off_link
from judging.projects.models import Delivery, Membership, Project, Role, SignOn, Webhook
from judging.projects.tokens import issue_token
from judging.runs.models import JudgeTemplate
from tests.factories import (
    make_annotator,
    make_examples,
    make_lesson,
    make_member,
    make_project,
    make_run,
    make_user,
    make_verdict,
)

pytestmark = pytest.mark.system

ROLES = (
    "nobody", "outsider", "annotator", "reviewer", "observer", "researcher", "owner", "superuser",
)  # fmt: skip
# Whom else the smallest role that is let in leads to.
LET_IN = {
    "member": {"annotator", "reviewer", "observer", "researcher", "owner", "superuser"},
    "annotator": {"annotator", "reviewer", "researcher", "owner", "superuser"},
    "reviewer": {"reviewer", "researcher", "owner", "superuser"},
    "observer": {"observer", "researcher", "owner", "superuser"},
    "researcher": {"researcher", "owner", "superuser"},
    "owner": {"owner", "superuser"},
}
LOGIN, UNKNOWN, REFUSED, IN = "log in first", "not found", "refused", "let in"
TOKEN = "send a token"

# By the smallest role that is let in. What an item in hand is about is its holder's alone.
TABLE = {
    "anybody": """
        api_reference api_schema crowd docs docs_page docs_picture glossary healthz invite language
        login mail_off password_reset_confirm readyz second_step
    """,
    "nobody outside the demo": "demo_enter",
    "nobody outside a crowd": "crowd_own",
    "nobody until it is opened": "metrics password_forgot sign_on sign_on_done",
    # tests/fairjudge_site/test_second_factor.py asks where it is offered.
    "nobody who is logged in, until it is offered": """
        factor_app factor_passkey factor_remove recovery_codes
    """,
    "superuser": "site_endpoints site_status site_user site_users",
    "owner of a project": "teams",
    "its maker": "team",
    "logged in": """
        account annotate annotate_preferences confirm home logout own_data own_data_file own_mail
        password_change sessions_end sizes tokens mail_confirm
    """,
    "member": "image project project_leave",
    "annotator": "annotate_leave annotate_own annotate_return annotate_round",
    "holder": """
        annotate_ahead annotate_back annotate_beat annotate_draft annotate_flag annotate_item
        annotate_read annotate_skip annotate_texts annotate_unskip annotate_vote
    """,
    "reviewer": "adjudication decision_undo flag_settle round round_item round_standing rounds",
    "observer": """
        example examples export look people_pace plot project_figures project_sizes report_file
        made_file cancel_made_file
        results results_page run run_progress runs
        preregistration preregistration_check preregistration_file
    """,
    "researcher": """
        example_check practice preregistration_new
        tag_examples untag_examples import_begin import_check import_detail import_price
        import_refused import_undo imports plan plan_preview project_cheapest
        project_cheapest_progress round_cancel round_close
        round_extend round_pause round_people round_person round_reopen round_resume round_votes
        run_budget run_cancel run_estimate run_models run_pause run_primary run_reparse
        lesson lesson_approve lesson_compare teach
        run_reselection run_resume run_start scores scores_undo template template_retire
        template_write templates
    """,
    # No login and no cookie lets in: tests/fairjudge_site/api/test_walk.py asks with tokens.
    "token": """
        api_assign_people api_choose_primary api_get_parquet api_get_settings api_list_exports
        api_list_jobs api_get_job api_get_job_file api_cancel_job
        api_get_practice api_get_sizes api_get_project_sizes
        api_new_judgments api_new_scores api_raise_budget api_reparse_run api_stop_reparsing
        api_compare api_gate api_cheapest
        api_close_round api_cancel_run api_delete_webhook api_estimate api_extend_round
        api_get_certificate
        api_get_import api_get_people_report api_get_project api_get_report api_get_round
        api_get_run api_get_table api_get_webhook api_list_deliveries api_list_webhooks
        api_list_annotators api_list_examples api_list_invitations api_list_projects api_list_rows
        api_list_teams api_add_team api_change_name_of_team api_remove_team
        api_me api_new_decision api_new_round api_new_run api_new_votes api_nothing api_pause_round
        api_pause_run api_pause_webhook api_resume_webhook api_rotate_webhook api_send_delivery
        api_send_test_event api_plan_round api_raise_votes api_reopen_round api_resume_round
        api_put_aside api_count_again api_release_person api_estimate_examples
        api_cancel_round api_list_undecided api_undo_decision api_list_flags
        api_settle_flag_of api_list_imports api_undo_import api_get_report_file api_list_templates
        api_retire_template api_restore_template api_list_events api_list_members
        api_change_member api_remove_member api_delete_project api_list_deletions api_leave
        api_begin_import api_get_refused api_list_models api_get_plot api_get_tool_file
        api_escalate api_new_lesson api_estimate_lesson api_get_lesson
        api_approve_lesson api_compare_lesson
        api_list_gates api_get_gate api_new_password_link api_get_crowd api_withdraw_crowd
        api_list_submissions api_get_submissions_file api_mark_submissions
        api_put_rejected_aside
        api_get_retention
        api_list_preregistrations api_check_preregistration api_get_preregistration
        api_resume_run api_tag_examples api_change_known_label api_undo_tags api_withdraw_invitation
    """,
    "its user": "sign_on_remove token_revoke",
    "owner": """
        invitation_revoke member people people_team project_delete round_crowd round_crowd_aside
        round_crowd_file
        retention round_crowd_marks round_crowd_withdraw settings trail webhook webhook_send
        webhooks
    """,
}
NAMES = {name: group for group, names in TABLE.items() for name in names.split()}

SIGNED = ("annotate_leave", "annotate_own", "annotate_return", "annotate_round")
# What the annotator has an item of, and nobody has to name its project.
WITHOUT_SLUG = (*SIGNED, "image")
# Looking at these shows judge output, or the models' names next to their responses, so votes given
# after it are marked.
UNBLINDING = {
    "": set(
        "example import_refused lesson look made_file plot project_cheapest "
        "project_cheapest_progress project_figures project_sizes results_page run run_progress "
        "run_reparse teach".split()
    ),
    "?run=1": set(
        "example examples import_refused lesson look made_file plot project_cheapest "
        "project_cheapest_progress project_figures project_sizes results_page run run_progress "
        "run_reparse teach".split()
    ),
}


@dataclass(frozen=True)
class World:
    """One of everything, and the arguments of each address that leads to it."""

    project: Project
    users: dict
    sessions: dict[str, str]
    arguments: dict[str, dict]
    folder: Path


def addresses(patterns=None) -> Iterator[str]:
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        if hasattr(pattern, "url_patterns"):
            yield from addresses(pattern.url_patterns)
        else:
            yield pattern.name or str(pattern.pattern)


def an_eighth(names, salt=0):
    """The names that `make test-system` takes of a walk of minutes, always the same.

    The whole walk is long."""
    names = sorted(names)
    found = [name for name in names if crc32(name.encode()) % 8 == salt]
    assert found
    return found


@pytest.fixture(scope="module")
def made(rows_of_module, tmp_path_factory):
    folder = tmp_path_factory.mktemp("media")
    project = make_project("vicuna")
    users = {
        "nobody": None, "owner": make_member(project, Role.OWNER, "olga"),
        "researcher": make_member(project, Role.RESEARCHER, "rosa"),
        "reviewer": make_member(project, Role.REVIEWER, "rene"),
        "observer": make_member(project, Role.OBSERVER, "oona"),
        "annotator": make_annotator(project, "ana").user,
        "outsider": make_user("otto", researcher=True),
        "superuser": make_user("sue", is_superuser=True),
    }  # fmt: skip
    # The outsider has the highest role somewhere else, which must not help here.
    another = make_project("another")
    Membership.objects.create(project=another, user=users["outsider"], role="owner")
    make_examples(another, 2)
    make_run(another)
    open_round(another, None, None, RoundSettings(everything=True, votes=1, seed=1))
    sessions = {role: session_of(user) for role, user in users.items() if user}
    arguments = arguments_of(project, users["annotator"], folder)
    return World(project, users, sessions, arguments, folder)


def session_of(user) -> str:
    """The key of a session in which they have logged in."""
    client = Client()
    client.force_login(user)
    return client.session.session_key


@pytest.fixture
def world(made, db, settings, tmp_path):
    """The same rows and files for each test, which may change them."""
    settings.MEDIA_ROOT = shutil.copytree(made.folder, tmp_path, dirs_exist_ok=True)
    people = User.objects.in_bulk(user.pk for user in made.users.values() if user)
    users = {role: user and people[user.pk] for role, user in made.users.items()}
    return replace(made, project=Project.objects.get(pk=made.project.pk), users=users)


def arguments_of(project, annotator, folder):
    example, *_ = make_examples(project, 2)
    run = make_run(project)
    make_verdict(run, example, 0.5)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1, seed=1))
    draft = claim_next(round_, annotator_of(project, annotator))
    flag = Flag.objects.create(item=draft.item, annotator=draft.annotator, reason="odd")
    invitation = invite(project, None, Terms(uses=9))
    member = Membership.objects.get(project=project, user=annotator)
    uid = urlsafe_base64_encode(force_bytes(annotator.pk))
    template = template_of(project)
    delivery = delivery_of(project)
    asked = {"run": run.number, "kind": "html"}
    report = Job.objects.create(project=project, user=annotator, kind="report", asked=asked)
    here = {"slug": project.slug}
    numbers = {
        "import": {"number": import_with_refused_rows(project, folder).number},
        "run": {"number": run.number},
        "lesson": {"number": make_lesson(run).number},
        "round": {"number": round_.number},
        "webhook": {"number": delivery.webhook.number},
    }
    special = {
        "adjudication": numbers["round"],
        "decision_undo": numbers["round"] | {
            "decision": Adjudication.objects.create(item=draft.item, label="win").pk
        },
        **{name: {"signed": address_of(round_).split("/")[-2]} for name in SIGNED},
        "crowd": {"token": crowd_token(round_)},
        "docs_page": {"name": "files"},
        "docs_picture": {"name": "run"},
        **{name: {"pk": example.pk} for name in ("example", "example_check")},
        "untag_examples": {
            "pk": change_tag(project, None, "hard", [example.pk], added=True).pk
        },
        "flag_settle": numbers["round"] | {"flag": flag.pk},
        "import_refused": numbers["import"] | {"index": 0},
        "image": {"sha256": image_in(draft.item.example).pk},
        "invitation_revoke": {"number": invitation.pk},
        "invite": {"token": link_of(invitation).rstrip("/").split("/")[-1]},
        "mail_confirm": mailed(confirming_link(annotator, "ana@example.org")),
        "mail_off": mailed(off_link(annotator, "waiting")),
        "member": {"number": member.pk},
        "plot": {"name": "bpde", "kind": "svg"},
        "preregistration_file": {
            "number": register(project, None, Plan(goal="Which is better?")).number, "kind": "md",
        },
        "project_cheapest_progress": {"number": 1},
        **{name: {"number": report.pk} for name in ("made_file", "cancel_made_file")},
        "report_file": {"kind": "html"},
        "results_page": {"name": "trust"},
        "scores_undo": {"number": scores_of(project).number},
        "password_reset_confirm": {
            "uidb64": uid, "token": password_link(annotator).rstrip("/").rpartition("/")[2]
        },
        "team": {"number": make_team(owner_of(project), "Berlin").pk},
        "site_user": {"number": annotator.pk},
        **{name: {"name": "uni"} for name in ("sign_on", "sign_on_done")},
        "factor_remove": {"number": 1},
        "sign_on_remove": {"number": sign_on_of(annotator).pk},
        "token_revoke": {"number": issue_token(annotator, "notebook", ["read"])[0].pk},
        **{name: {"pk": template.pk} for name in ("template", "template_retire")},
        "round_item": numbers["round"] | {"item": draft.item.pk},
        "round_person": numbers["round"] | {"annotator": draft.annotator.number},
        "webhook_send": numbers["webhook"] | {"delivery": delivery.pk},
    }  # fmt: skip
    numberless = {"run_start", "run_estimate", "run_models"}

    def arguments(name):
        if NAMES[name] == "holder":
            return {"token": draft.token}
        if NAMES[name] == "token":
            named = here | {"number": 1, "what": "labels", "kind": "csv", "delivery": delivery.pk}
            named |= {"annotator": draft.annotator.number, "flag": flag.pk, "decision": 1}
            named |= {"index": 0, "name": "bpde", "tool": "argilla"}
            return {one: named[one] for one in parameters_of(name)}
        kind = name.split("_")[0]
        number = numbers.get(kind, {}) if name not in numberless else {}
        found = special.get(name, number)
        return found if NAMES[name] not in LET_IN or name in WITHOUT_SLUG else here | found

    return {name: arguments(name) for name in NAMES}


def mailed(link):
    return {"token": link.rstrip("/").rpartition("/")[2]}


def image_in(example):
    image = Image.objects.create(
        sha256=f"{example.pk:064x}", content_type="image/png", width=1, height=1, content=b"1"
    )
    ExampleImage.objects.create(example=example, image=image)
    return image


def owner_of(project):
    owners = User.objects.filter(memberships__project=project, memberships__role=Role.OWNER)
    return owners.first() or make_member(project, Role.OWNER)


def sign_on_of(user):
    issuer = "https://login.uni.example"
    return SignOn.objects.create(user=user, issuer=issuer, subject=user.username)


def crowd_token(round_):
    link = crowds.set_up(
        round_, owner_of(round_.project), {"consent": "We pay.", "completion_code": "DONE"}
    )
    return urlsplit(crowds.link_of(link)).path.rstrip("/").split("/")[-1]


def parameters_of(name):
    """The parameters of an address that takes a token, by its pattern."""
    route = next(str(one.pattern) for one in urlpatterns if one.name == name)
    return re.findall(r"<(\w+)>", route)


def template_of(project):
    text, output = "{question} {first} {second}", {"reply": "score_lines"}
    return JudgeTemplate.objects.create(
        project=project, name="own", form="score", text=text, output=output
    )


def delivery_of(project):
    """An event that was tried once, of a webhook whose number no other row has."""
    hook = Webhook.objects.create(
        project=project, number=7, url="https://example.org/hook", events=["run.done"]
    )
    return Delivery.objects.create(
        webhook=hook, message="msg_1", event="run.done", body="{}", attempts=1, status=500,
        said="<b>Not now.</b>",
    )  # fmt: skip


def scores_of(project):
    number = project.imports.count() + 1
    kind = Import.Kind.POINTS
    return Import.objects.create(project=project, number=number, kind=kind, state="done")


def import_with_refused_rows(project, folder: Path):
    """Checked and not yet begun, with a copy of refused rows as the writing leaves it."""
    file = folder / "imports" / "one" / "pairs.csv"
    file.parent.mkdir(parents=True)
    file.write_text("question,response_1,response_2\nWhich?,This one.,That one.\n")
    imported = record_import(project, None, [file])
    refused_path(file).write_text("question\n")
    imported.summary["refused_files"] = [refused_path(file).name]
    imported.save()
    return imported


def expected(name: str, role: str) -> str:
    group = NAMES[name]
    if group == "anybody":
        return IN
    if group in ("nobody outside the demo", "nobody outside a crowd", "nobody until it is opened"):
        return UNKNOWN
    if group == "token":
        return TOKEN
    if role == "nobody":
        return LOGIN
    if group == "nobody who is logged in, until it is offered":
        return UNKNOWN
    if group == "logged in":
        return IN
    if group in ("owner of a project", "its maker"):
        # The outsider owns another project.
        theirs = {"owner", "superuser", "outsider" if group == "owner of a project" else ""}
        return IN if role in theirs else UNKNOWN
    if group in ("holder", "its user"):
        return IN if role == "annotator" else UNKNOWN
    if role == "outsider" or (group == "superuser" and role != "superuser"):
        return UNKNOWN
    return IN if group == "superuser" or role in LET_IN[group] else REFUSED


def outcome(response) -> str:
    if response.status_code == 302 and response["Location"].startswith(reverse("login") + "?"):
        return LOGIN
    assert response.status_code != 500
    return {404: UNKNOWN, 403: REFUSED, 401: TOKEN}.get(response.status_code, IN)


def come_as(client, session: str | None) -> None:
    client.cookies.clear()
    if session is not None:
        client.cookies[settings.SESSION_COOKIE_NAME] = session


def ask(client, method, address, session):
    """As if nothing had been asked before: whatever it changes is rolled back."""
    with transaction.atomic():
        come_as(client, session)
        response = getattr(client, method)(address)
        # A download is closed when it was read.
        list(response)
        transaction.set_rollback(True)
    return response


def test_the_table_names_every_address_and_no_other():
    assert sorted(addresses()) == sorted(NAMES)


@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.django_db
def test_only_those_are_let_in_who_may(client, world, name):
    address = reverse(name, kwargs=world.arguments[name])
    answered = False
    for method in ("get", "post"):
        for role in ROLES:
            response = ask(client, method, address, world.sessions.get(role))
            if response.status_code == 405:
                # What is only ever posted says so to everybody alike, before it looks.
                continue
            answered = True
            assert outcome(response) == expected(name, role), f"{role} {method}s {address}"
    assert answered


@pytest.mark.parametrize("name", "example template template_retire member invitation_revoke "
                         "round_item flag_settle untag_examples".split())  # fmt: skip
@pytest.mark.django_db
def test_an_owner_reaches_nothing_of_another_project_from_their_own(client, world, name):
    """What is named by a number of the whole site is looked for in the project alone."""
    address = reverse(name, kwargs=world.arguments[name] | {"slug": "another"})
    for method in ("get", "post"):
        response = ask(client, method, address, world.sessions["outsider"])
        assert response.status_code in (404, 405), f"{method} {address}"


@pytest.mark.parametrize("role", ["annotator", "reviewer", "observer", "researcher"])
@pytest.mark.django_db
def test_no_page_leads_its_reader_to_one_that_refuses_them(client, world, role):
    """Links and buttons of all pages that somebody reaches from the start page."""
    user, slug = world.users[role], world.project.slug
    user.user_permissions.clear()
    Membership.objects.filter(user=user).update(unblinded_at=timezone.now())
    client.force_login(user)
    waiting, seen, shown = ["/"], set(), 0
    while waiting:
        address = waiting.pop()
        response = client.get(address)
        assert outcome(response) == IN, f"{role} is led to {address}"
        if "html" not in response.get("Content-Type", "") or response.streaming:
            continue
        html = response.content.decode() if response.status_code == 200 else ""
        shown += bool(html)
        links = {response["Location"]} if "Location" in response else set()
        links |= set(re.findall(r'(?:href|hx-get)="(/[^"#?]*)', html))
        for action in re.findall(r'<form[^>]*method="post"[^>]*action="(/[^"?]*)', html):
            if action not in seen and action.startswith(f"/p/{slug}/"):
                with transaction.atomic():
                    assert outcome(client.post(action)) == IN, f"{role} gets a button to {action}"
                    transaction.set_rollback(True)
            seen.add(action)
        new = {link for link in links if link.startswith(("/p/", "/annotate/"))} - seen
        seen |= new
        waiting += sorted(new)
    assert shown >= (2 if role == "annotator" else 4)


@pytest.mark.parametrize("query", UNBLINDING)
@pytest.mark.parametrize("name", sorted(n for n in NAMES if NAMES[n] in LET_IN and n not in SIGNED))
@pytest.mark.django_db
def test_whoever_looks_at_the_judge_is_marked_and_nobody_else(client, world, name, query):
    owner = world.users["owner"]
    client.force_login(owner)
    list(client.get(reverse(name, kwargs=world.arguments[name]) + query))
    seen = Membership.objects.get(user=owner).unblinded_at is not None
    assert seen == (name in UNBLINDING[query])


NAMES_A_MODEL, TEXT_OF_A_RESPONSE = re.compile(b"maple-7b|birch-3b"), b"response to"
FORMS = [
    {"what": "labels"}, {"what": "votes"}, {"what": "preferences"},
    {"what": "labels", "format": "jsonl"}, {},
]  # fmt: skip


@pytest.mark.parametrize("with_run", [True, False])
@pytest.mark.django_db
def test_no_page_or_export_names_a_model_next_to_its_response_unmarked(client, world, with_run):
    """Whatever the owner opens or posts: with such an answer the membership has the mark."""
    project, owner = world.project, world.users["owner"]
    if not with_run:
        project.rounds.update(run=None)
        project.runs.all().delete()
    upload = SimpleUploadedFile("p.csv", b"question,response_1,response_2,model_1,model_2\n"
        b"Why?,A first response to it.,A second response to it.,maple-7b,birch-3b\n")  # fmt: skip
    client.force_login(owner)
    with transaction.atomic():
        shown = client.post(
            reverse("imports", kwargs={"slug": project.slug}),
            {"files": upload, "file_format": "auto"},
            follow=True,
        )
        # The first rows name no model until that is asked for.
        assert not found_in(shown)
        assert not is_marked(owner)
        page = shown.redirect_chain[-1][0]
        client.post(reverse("look", kwargs={"slug": project.slug}), {"next": page})
        assert found_in(client.get(page))
        assert is_marked(owner)
        transaction.set_rollback(True)
    naming = set()
    for name in sorted(n for n in NAMES if NAMES[n] in LET_IN):
        address = reverse(name, kwargs=world.arguments[name])
        for method, sent in [("get", {}), *(("post", form) for form in FORMS)]:
            with transaction.atomic():
                come_as(client, world.sessions["owner"])
                response = getattr(client, method)(address, sent)
                if found_in(response):
                    assert is_marked(owner), f"{method} {address} {sent}"
                    naming.add(name)
                transaction.set_rollback(True)
    assert {"example", "export"} <= naming


def found_in(response) -> bool:
    content = b"".join(response)
    return bool(NAMES_A_MODEL.search(content)) and TEXT_OF_A_RESPONSE in content


def is_marked(user) -> bool:
    member = Membership.objects.filter(user=user).first()
    return member is None or member.unblinded_at is not None
