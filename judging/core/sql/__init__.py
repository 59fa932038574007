"""Hand-made SQL, for the few queries and writes for which the ORM is too slow.

A statement belongs here only if `python -m benchmarks.sql` shows that the ORM takes more than a
quarter longer. Everything else uses the ORM. All other rooms write querysets: this room alone holds
SQL text.

What each part buys, as medians of `python -m benchmarks.sql`, ORM against this room, on SQLite:

| part | used for | ORM | here |
|---|---|---|---|
| `prepared` | a session, read on every request | 190 µs | 23 µs |
| | a membership with its project, read on every page | 600 µs | 44 µs |
| | the next free slots of a round | 15 ms | 0.18 ms |
| | an item, locked | 800 µs | 62 µs |
| | the last numbers of a batch of 10 calls | 400 µs | 40 µs |
| | which calls of a batch are still claimed | 330 µs | 26 µs |
| `prepared_update` | a seat moves on; with RETURNING | 95; 290 µs | 12; 17 µs |
| | a run reserves and settles money | 330; 190 µs | 18; 15 µs |
| `insert_one` | one event, draft or vote | 86 µs | 55 µs |
| `new` | 10 objects in memory | 60 µs | 9 µs |
| `insert` | 10 calls; 10 samples | 800; 340 µs | 250; 170 µs |
| `update` | 15 columns of 10 calls | 28 ms or more | 0.06 ms |
| `upsert` | 10 verdicts | 310 µs | 98 µs |

POSTGRES

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
