"""Judgments that were recorded elsewhere become a run like any other, without a call."""
