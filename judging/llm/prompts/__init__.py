"""What is said to a judge: templates, orders, and disarming marks inside responses.

Reading what comes back belongs to `parsing`.
"""
