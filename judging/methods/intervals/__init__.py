"""Estimates with intervals: proportions, bootstrap, win rates, covariates.

What is estimated belongs to the other rooms; how certain an estimate is belongs here."""
