"""Errors that the user can solve. They are shown as sentences, never with a traceback."""


class UserError(Exception):
    """Says in one text what happened, what is safe, and what to do.

    Pages show it as a message. Commands print it and end with the exit code of its class, which
    `judging.core.commands` knows.
    """


class Overtaken(UserError):
    """Somebody decided the same thing after the form that decides it was made."""


class Misuse(UserError):
    """Options that don't go together, or are not written as they should be."""


class Failed(UserError):
    """Not the user's mistake: a server, a disk or an endpoint did not do its part."""


class Interrupted(UserError):
    """The work was cut off. What was recorded is kept, and the same work can be resumed."""
