"""The pages that need judge and people together: overview, results, planner, examples.

A page fetches, checks permission, calls one function and renders.
"""
