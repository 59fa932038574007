"""A run and its people as arrays, one entry per example.

What is computed from them belongs to `sections`.
"""
