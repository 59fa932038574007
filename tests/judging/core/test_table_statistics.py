"""After a large insert PostgreSQL knows its tables at once; SQLite is left as it is."""

import pytest
from django.db import connection, transaction

from annotation.models import Item, Slot
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.leases import Chunks
from judging.core.sql.statements import MANY, rows_came
from judging.dataset.models import Example, HumanScore, PointItem
from judging.dataset.scores import import_scores
from judging.dataset.writing import import_files
from judging.runs.models import Verdict
from judging.runs.verdicts.rebuild import rebuild_verdicts
from tests.factories import make_examples, make_project, make_run

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]


def known_rows(model):
    """How many rows the planner believes there are; None where it keeps no such thing."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            table = [model._meta.db_table]
            cursor.execute("SELECT reltuples::int FROM pg_class WHERE relname = %s", table)
            return cursor.fetchone()[0]
        cursor.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE 'sqlite_stat%%'")
        assert cursor.fetchone() == (0,)
        return None


def expected(n):
    return n if connection.vendor == "postgresql" else None


def test_a_large_round_is_known_as_soon_as_it_is_open(transactional_db):
    project = make_project()
    make_examples(project, 400)
    open_round(project, None, None, RoundSettings(everything=True, votes=3))
    assert (known_rows(Item), known_rows(Slot)) == (expected(400), expected(1200))


def test_many_examples_are_known_as_soon_as_they_are_imported(transactional_db, tmp_path):
    rows = [f"{n},Why?,One,Two,a,b" for n in range(MANY)]
    header = "external_id,question,response_1,response_2,model_1,model_2"
    (tmp_path / "pairs.csv").write_text("\n".join([header, *rows]))
    import_files(make_project(), None, [tmp_path / "pairs.csv"])
    assert known_rows(Example) == expected(MANY)


def test_many_scores_are_known_as_soon_as_they_are_imported(transactional_db, tmp_path):
    rows = [f"Q{n},An answer.,fluency,ana,4" for n in range(MANY)]
    (tmp_path / "scores.csv").write_text("\n".join(["input,output,criterion,rater,score", *rows]))
    import_scores(make_project(), None, tmp_path / "scores.csv")
    assert (known_rows(PointItem), known_rows(HumanScore)) == (expected(MANY), expected(MANY))


def test_many_verdicts_are_known_as_soon_as_they_are_rebuilt(transactional_db):
    project = make_project()
    make_examples(project, MANY)
    rebuild_verdicts(make_run(project))
    assert known_rows(Verdict) == expected(MANY)


def test_the_tables_are_counted_after_the_transaction_and_not_for_a_few_rows(transactional_db):
    make_examples(make_project(), 7)
    before = known_rows(Example)
    rows_came(MANY - 1, Example)
    assert known_rows(Example) == before
    with transaction.atomic():
        rows_came(MANY, Example)
        assert known_rows(Example) == before
    assert known_rows(Example) == expected(7)


def test_a_table_is_counted_while_rows_refer_to_its_first_ones(transactional_db):
    make_examples(make_project(), 7)
    before, chunks = known_rows(Example), Chunks(Example)
    chunks.size = MANY - 1
    with chunks.transaction():
        pass
    assert known_rows(Example) == before
    with chunks.transaction():
        pass
    assert known_rows(Example) == expected(7)
    make_examples(make_project(), 2)
    with chunks.transaction():
        pass
    assert known_rows(Example) == expected(7)
