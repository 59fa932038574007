"""Verdicts of a run, rebuilt from its samples, and the figures about the judge alone.

Figures that need people's labels belong to `annotation.results`.
"""
