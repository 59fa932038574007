"""The report as files: one HTML page, and a ZIP that can be verified.

The tables inside come from `tables`.
"""
