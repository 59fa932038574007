"""Handing out items: seats, slots, drafts, and when an item is settled.

Recording a vote belongs to `votes`; opening a round belongs to `rounds`.
"""
