"""People: annotators, rounds, the queue, votes, adjudication; judge and people together in `results`."""
