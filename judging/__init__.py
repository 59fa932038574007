"""Projects, examples and judges: everything that needs no people's votes.

People's rounds and votes belong to `annotation`, which builds on this package.
"""
