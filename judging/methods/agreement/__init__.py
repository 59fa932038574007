"""How well labels agree: judge with people, people with each other.

Ranking and review of examples belong to `review` and `ranking`."""
