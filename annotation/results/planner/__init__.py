"""What a round of review would cost and achieve, before it is opened.

Opening it belongs to `annotation.rounds`.
"""
