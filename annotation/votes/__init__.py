"""Votes: recorded once, edited with their history, imported from files, and compared.

Merging votes with the judge's verdicts belongs to `annotation.results.merge`.
"""
