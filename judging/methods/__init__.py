"""The science: pure functions on arrays, with frozen results and seeded randomness.

Nothing here uses Django, reads a file or asks a judge.
"""
