"""Each operation as a method, by its name in the schema.

`make client` writes this module from the schema of the REST interface.
"""

from fairjudge_client import calls
from fairjudge_client.steps import F, Resource, operation


class Api(Resource[F]):
    """Every operation of the site. Each method sends one request."""

    me = operation(calls.me)
    list_projects = operation(calls.list_projects)
    new_project = operation(calls.new_project)
    get_project = operation(calls.get_project)
    list_annotators = operation(calls.list_annotators)
    list_examples = operation(calls.list_examples)
    upsert_examples = operation(calls.upsert_examples)
    get_import = operation(calls.get_import)
    list_invitations = operation(calls.list_invitations)
    new_invitation = operation(calls.new_invitation)
    withdraw_invitation = operation(calls.withdraw_invitation)
    get_people_report = operation(calls.get_people_report)
    list_rounds = operation(calls.list_rounds)
    new_round = operation(calls.new_round)
    plan_round = operation(calls.plan_round)
    get_round = operation(calls.get_round)
    close_round = operation(calls.close_round)
    new_decision = operation(calls.new_decision)
    extend_round = operation(calls.extend_round)
    pause_round = operation(calls.pause_round)
    reopen_round = operation(calls.reopen_round)
    resume_round = operation(calls.resume_round)
    raise_votes = operation(calls.raise_votes)
    list_runs = operation(calls.list_runs)
    new_run = operation(calls.new_run)
    estimate = operation(calls.estimate)
    get_run = operation(calls.get_run)
    cancel_run = operation(calls.cancel_run)
    get_certificate = operation(calls.get_certificate)
    pause_run = operation(calls.pause_run)
    get_report = operation(calls.get_report)
    resume_run = operation(calls.resume_run)
    list_rows = operation(calls.list_rows)
    tag_examples = operation(calls.tag_examples)
    undo_tags = operation(calls.undo_tags)
    new_votes = operation(calls.new_votes)
    get_table = operation(calls.get_table)
