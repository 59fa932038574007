"""Errors that are the user's to solve: told in a sentence, never with a traceback."""


class UserError(Exception):
    """What happened, what is safe and what to do, as one text for whoever asked.

    Pages show it as a message, commands print it and end with a failure.
    """
