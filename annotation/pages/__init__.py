"""The manager's pages: settings, people, rounds and decisions.

The annotator's own pages belong to `screen`.
"""
