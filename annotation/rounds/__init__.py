"""Rounds: which examples are selected, how a round opens, changes, learns and progresses.

Handing out its items belongs to `queue`.
"""
