"""Hand-made SQL, for the few queries and writes for which the ORM is too slow.

A statement belongs here only if `python -m benchmarks.sql` shows that the ORM takes more than a
quarter longer. Everything else uses the ORM. Other rooms write querysets: only this one holds SQL
text for single tables of the product. What is about a database as a whole has its statements where
it is done: backups, the move to PostgreSQL, health, sizes, and the lock of migrations.

What each part buys, as medians of `python -m benchmarks.sql --postgres URL` in microseconds, ORM
against this room. They were measured on a busy machine with two cores, so only ratios mean much.

| part | used for | SQLite | PostgreSQL |
|---|---|---|---|
| `prepared` | a session, read on every request | 185 : 24 | 1,081 : 65 |
| | a membership with its project, read on every page | 626 : 44 | 1,295 : 92 |
| | the next free slots of a round | 37,513 : 181 | 16,265 : 4,002 |
| | an item, locked | 875 : 62 | 13,063 : 168 |
| | the last numbers of a batch of 10 calls | 443 : 40 | 7,946 : 104 |
| | which calls of a batch are still claimed | 333 : 26 | 4,049 : 137 |
| `prepared_update` | a seat moves on | 95 : 13 | 911 : 59 |
| | a seat moves on and returns its count | 280 : 18 | 6,048 : 76 |
| | a run reserves money for a batch | 336 : 18 | 6,908 : 78 |
| | a run settles what a batch cost | 190 : 15 | 3,005 : 75 |
| `insert_one` | an event, a draft or a vote | 87 : 55 | 326 : 106 |
| `new` | 10 objects in memory | 58 : 9 | 60 : 9 |
| `insert` | 10 calls | 852 : 234 | 4,903 : 748 |
| | 10 samples | 320 : 152 | 3,921 : 567 |
| | 500 examples, by COPY on PostgreSQL | 232,414 : 127,175 | 525,102 : 168,864 |
| `insert_columns` | 500 samples | 19,940 : 9,926 | 38,592 : 15,946 |
| `update` | 15 columns of 10 calls | 159,673 : 63 | 60,443 : 2,154 |
| `upsert` | 10 verdicts | 314 : 98 | 2,891 : 440 |
| | 500 verdicts | 41,787 : 12,481 | 105,527 : 69,879 |

The rows come from documented interfaces: querysets, expressions with `as_sql`, `Model.from_db`,
`Field.get_db_prep_save`, `Field.pre_save`, `Field.db_type`, and cursors. Undocumented ones are used
only where nothing documented exists:

- `queryset.query.get_compiler` with `as_sql`, `select`, `klass_info`, `annotation_col_map`,
  `get_converters` and `apply_converters`, `get_related_populators`, and `queryset._iterable_class`
  and `_fields`: to compile a queryset once and to build its models from rows. `raw()` takes SQL
  text, and loads neither related models nor annotated tuples.
- `UpdateQuery`: to compile what `queryset.update()` would send, without sending it.
- `ModelState`: to make a model without its `__init__`, which takes most of the time of a row.
- `connection._prepare_cursor` with `ServerBindingCursor`: see `planned_cursor`.
- `connection.ops.quote_name`, `bulk_batch_size` and `adapt_datetimefield_value`: for names, the
  number of values that SQLite takes at once, and times that belong to no field.
"""
