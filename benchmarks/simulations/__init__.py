"""Simulated projects in which the truth is known, to check what the statistics promise."""
