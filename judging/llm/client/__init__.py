"""Sending requests to a judge: transport, errors, retries, limits, batches, likelihoods.

What is asked belongs to `prompts`; how a reply is read belongs to `parsing`.
"""
