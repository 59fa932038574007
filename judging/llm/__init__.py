"""The judge client: what is said to a judge, how it is asked, and what it costs. No Django."""
