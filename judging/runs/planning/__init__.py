"""What a run asks: its settings, its questions, its cost, and which samples are still missing.

Sending the questions belongs to `engine`.
"""
