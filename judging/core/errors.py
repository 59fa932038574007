"""Errors that the user can solve. They are shown as sentences, never with a traceback."""


class UserError(Exception):
    """Says in one text what happened, what is safe, and what to do.

    Pages show it as a message. Commands print it and end with a failure.
    """


class Overtaken(UserError):
    """Somebody decided the same thing after the form that decides it was made."""
