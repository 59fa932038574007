"""Reading a judge's reply: one parser for each reply format, and one rule for what counts.

Turning scores into a verdict belongs to `judging.methods.verdicts`.
"""
