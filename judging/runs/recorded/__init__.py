"""Judgments that were recorded elsewhere become a run, without a request.

Reading the files' layouts belongs to `judging.dataset`.
"""
