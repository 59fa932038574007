"""Hand-made SQL for the few queries and writes that the ORM makes too slow.

A query belongs here only if a command in `benchmarks/` shows that the ORM costs more than a
quarter; everything else uses the ORM.
"""
