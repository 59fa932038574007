"""Runs by PORTIA: which stage an example is at, what it is asked next, and what was shown."""
