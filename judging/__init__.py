"""Projects, examples and judges: everything that works without people's votes.

Rounds and votes belong to `annotation`, which builds on this package.
"""
