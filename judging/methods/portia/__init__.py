"""PORTIA: split both responses, align the parts, ask about them, and measure what that fixes.

Asking itself belongs to `judging.runs`."""
