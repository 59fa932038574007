"""Exports of labels, votes, samples and preferences.

The packed report with these tables belongs to `delivery`.
"""
