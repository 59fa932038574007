"""Asking: claims, the pump, recording, batches, recovery, progress and re-reading.

What is asked belongs to `planning`; what the answers mean belongs to `verdicts`.
"""
