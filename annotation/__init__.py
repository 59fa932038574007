"""People: annotators, rounds, the queue, votes; judge and people together in `results`."""
