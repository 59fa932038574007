"""Each page by the operations that do and show the same, or the reason why only people can.

A page that is in no list fails the test, and so does one that lists an operation that isn't there.
"""

import re
from urllib.parse import unquote

import pytest
from django.test import Client
from django.urls import get_resolver, reverse

from tests.factories import make_user
from tests.fairjudge_site.api.test_walk import OPERATIONS

# The operations of what the page changes, then of what it shows.
PAGES = {
    "home": "list_projects new_project list_deletions",
    "project": "get_project list_runs list_rounds list_imports",
    "project_figures": "get_report get_people_report",
    "project_delete": "delete_project",
    "project_leave": "leave",
    "settings": "update_settings get_settings",
    "retention": "get_retention set_retention",
    "trail": "list_events",
    "webhooks": "new_webhook list_webhooks",
    "webhook": """
        pause_webhook resume_webhook send_test_event rotate_webhook delete_webhook
        get_webhook list_deliveries
    """,
    "webhook_send": "send_delivery",
    "people": "new_invitation list_members list_invitations list_annotators",
    "people_pace": "list_rows get_people_report",
    "member": "change_member remove_member new_password_link",
    "invitation_revoke": "withdraw_invitation",
    "examples": "list_examples list_rows",
    "example": "list_examples list_rows",
    "tag_examples": "tag_examples",
    "example_check": "change_known_label",
    # A data set's folder holds the images of its examples.
    "image": "get_table",
    "untag_examples": "undo_tags",
    "imports": "upsert_examples estimate_examples list_imports",
    "import_detail": "get_import",
    "import_price": "estimate_examples",
    "import_check": "estimate_examples upsert_examples",
    "import_begin": "begin_import",
    "import_undo": "undo_import",
    "import_refused": "get_refused",
    "scores": "new_scores list_imports",
    "scores_undo": "undo_import",
    "templates": "list_templates",
    "template": "list_templates",
    "template_write": "new_template",
    "template_retire": "retire_template restore_template",
    "runs": "list_runs",
    "run": "get_run",
    "run_start": "new_run",
    "run_estimate": "estimate",
    "run_models": "list_models",
    "run_progress": "get_run",
    "run_pause": "pause_run",
    "run_cancel": "cancel_run",
    "run_resume": "resume_run",
    "run_budget": "raise_budget",
    "run_reparse": "reparse_run stop_reparsing",
    "run_primary": "choose_primary",
    "teach": "new_lesson estimate_lesson list_lessons",
    "lesson": "get_lesson",
    "lesson_approve": "approve_lesson",
    "lesson_compare": "compare_lesson",
    "plan": "new_round plan_round",
    "plan_preview": "plan_round",
    "sizes": "get_sizes",
    "project_sizes": "get_project_sizes",
    "preregistration": "list_preregistrations",
    "preregistration_new": "new_preregistration",
    "preregistration_file": "get_preregistration",
    "preregistration_check": "check_preregistration",
    "project_cheapest": "cheapest",
    "project_cheapest_progress": "get_gate",
    "practice": "new_round get_practice",
    "teams": "list_teams set_team_people",
    "team": "list_teams set_team_people change_name_of_team remove_team",
    "people_team": "add_team",
    "rounds": "list_rounds",
    "round": "get_round list_flags",
    "round_standing": "get_round",
    "round_pause": "pause_round",
    "round_resume": "resume_round",
    "round_close": "close_round",
    "round_reopen": "reopen_round",
    "round_cancel": "cancel_round",
    "round_votes": "raise_votes",
    "round_extend": "extend_round",
    "round_people": "assign_people",
    "round_person": "put_aside count_again release_person",
    "round_crowd": "set_crowd get_crowd list_submissions",
    "round_crowd_withdraw": "withdraw_crowd",
    "round_crowd_file": "get_submissions_file",
    "round_crowd_marks": "mark_submissions",
    "round_crowd_aside": "put_rejected_aside",
    "flag_settle": "settle_flag_of",
    "adjudication": "list_undecided list_decisions",
    "round_item": "new_decision list_rows",
    "decision_undo": "undo_decision",
    "results": "get_report",
    "results_page": "get_report list_exports gate compare escalate",
    "plot": "get_plot",
    "export": "get_table get_parquet get_tool_file",
    "report_file": "get_report_file",
    "made_file": "get_job_file",
    "cancel_made_file": "cancel_job",
}
# Why no operation does what these do.
PEOPLE_ALONE = {
    "A vote is a person's own, given blind on the screen. Programs import votes.": """
        annotate annotate_ahead annotate_back annotate_beat annotate_draft annotate_flag
        annotate_item annotate_leave annotate_own annotate_preferences annotate_read
        annotate_return annotate_round annotate_skip annotate_texts annotate_unskip annotate_vote
        crowd crowd_own
    """,
    "It asks a person. A program that asks for judge output has answered.": "look",
    "Logins, passwords, tokens and own personal data belong to a person at a browser.": """
        demo_enter invite language login logout password_change password_reset_confirm token_revoke
        tokens account confirm factor_app factor_passkey factor_remove mail_confirm mail_off
        own_data own_data_file own_mail password_forgot recovery_codes second_step sessions_end
        sign_on sign_on_done sign_on_remove
    """,
    "It is for the operator, who has commands.": "site_endpoints site_status site_user site_users",
    "It is for everybody, without a login.": """
        api_reference api_schema docs docs_page docs_picture glossary healthz metrics readyz
    """,
    "How many items a better parser would select otherwise is a hint that nothing follows from.": (
        "run_reselection"
    ),
}
ALONE = {name for names in PEOPLE_ALONE.values() for name in names.split()}


def pages(patterns=None):
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        if hasattr(pattern, "url_patterns"):
            yield from pages(pattern.url_patterns)
        elif not str(pattern.name).startswith("api_") or pattern.name in ALONE:
            yield pattern


def test_each_page_has_an_operation_or_a_reason():
    assert sorted({one.name for one in pages()}) == sorted([*PAGES, *ALONE])
    named = {name: names.split() for name, names in PAGES.items()}
    assert [name for names in named.values() for name in names if name not in OPERATIONS] == []
    assert all(named.values())


def address(pattern):
    """An address of the pattern. What it names need not be there to learn its methods."""
    values = {}
    for name, converter in pattern.pattern.converters.items():
        values[name] = 1 if "Int" in type(converter).__name__ else "MQ"
    named = re.findall(r"\(\?P<(\w+)>", str(pattern.pattern))
    values |= {name: {"kind": "svg" if pattern.name == "plot" else "html"}.get(name, "a")
               for name in named}  # fmt: skip
    return unquote(reverse(pattern.name, kwargs=values))


@pytest.mark.django_db
def test_each_form_of_a_page_has_an_operation_that_changes_something():
    client = Client()
    client.force_login(make_user("sue", is_superuser=True))
    forms = set()
    for pattern in pages():
        allowed = client.generic("PROPFIND", address(pattern)).headers.get("Allow", "")
        if "POST" in allowed and pattern.name not in ALONE:
            forms.add(pattern.name)
    writes = {name for name, (method, *_) in OPERATIONS.items() if method in ("POST", "PATCH")}
    # These are POST on the page alone, since each download goes on record.
    downloads = {"export", "report_file", "round_crowd_file"}
    assert downloads < forms
    assert {name for name in forms - downloads if not set(PAGES[name].split()) & writes} == set()
    assert len(forms) > 40
