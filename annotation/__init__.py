"""People: rounds, the queue, votes and the annotator's screen.

What needs judge and people together belongs to `annotation.results`.
"""
