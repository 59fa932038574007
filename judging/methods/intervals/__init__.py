"""Estimates with intervals: proportions, bootstrap, win rates, covariates.

What is estimated belongs to the other groups; how sure an estimate is belongs here.
"""
