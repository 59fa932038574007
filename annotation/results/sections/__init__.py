"""The sections of the report, one module each: read, compute, plot.

Putting them together belongs to `report`.
"""
