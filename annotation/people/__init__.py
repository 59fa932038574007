"""Annotators of a project: their names and logins, invitations, and who labels in which round.

Logins and roles themselves belong to `judging.projects`.
"""
