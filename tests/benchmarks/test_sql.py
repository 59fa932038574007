"""`python -m benchmarks.sql` compares statements that exist: each pair runs once, both ways."""

from functools import partial

import pytest

from benchmarks import sql


@pytest.mark.django_db
@pytest.mark.databases
@pytest.mark.parametrize(
    "pairs",
    [sql.one_row, sql.engine, partial(sql.many_rows, 2)],
    ids=["one row", "engine", "many rows"],
)
def test_both_ways_of_each_pair_run(pairs):
    for _, by_orm, by_sql in pairs():
        by_orm()
        by_sql()
