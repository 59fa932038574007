"""The report of a run: its sections together, as JSON, as text and for the pages.

Files made from it belong to `delivery`.
"""
