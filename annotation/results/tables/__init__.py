"""Exports of labels, votes, samples and preferences, and of tables for other tools.

The packed report with these tables belongs to `delivery`.
"""
