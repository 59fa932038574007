"""The judge client: prompts, requests, replies and prices. No Django.

Which questions are asked, and what is recorded of the answers, belongs to `judging.runs`.
"""
