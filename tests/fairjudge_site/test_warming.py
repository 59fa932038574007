"""A new web process: nothing that annotators wait for is left to their first requests."""

import pytest
from django.db import DatabaseError

from annotation.queue.queue import claim_next
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.sql import statements
from judging.core.sql.statements import KNOWN
from tests.factories import make_annotator, make_examples, make_project

pytestmark = [pytest.mark.databases]


@pytest.fixture
def warm_up(transactional_db):
    # The module warms up when it is imported.
    from fairjudge_site.wsgi import warm_up

    return warm_up


def test_no_query_is_left_to_be_compiled(client, warm_up):
    project = make_project()
    make_examples(project, 2)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    ana = make_annotator(project, "ana")
    # The application imports what its middleware needs.
    client.get("/login/")
    for query in KNOWN:
        query.compiled.cache_clear()
    warm_up()
    made = [query.compiled.cache_info().misses for query in KNOWN]
    client.force_login(ana.user)
    item = f"/annotate/{claim_next(round_, ana).token}"
    assert client.get(item).status_code == 200
    assert client.get(f"{item}/ahead").status_code == 200
    fields = {"token": item.rpartition("/")[2], "overall": "left"}
    assert client.post(f"{item}/vote", fields).status_code == 302
    assert [query.compiled.cache_info().misses for query in KNOWN] == made
    assert all(made)


def test_a_database_that_is_away_is_said_and_stops_nothing(monkeypatch, caplog, warm_up):
    def away():
        raise DatabaseError("connection refused")

    monkeypatch.setattr(statements, "compile_known", away)
    warm_up()
    assert "The database does not answer yet: connection refused" in caplog.text
