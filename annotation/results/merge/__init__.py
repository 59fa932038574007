"""Final labels: people's where they were asked, the judge's elsewhere.

Figures about the labels belong to `sections`.
"""
