"""Likelihood bias of a judge that scores single responses (Ohi et al., ACL 2024).

Asking a model for likelihoods belongs to `judging.llm` and `judging.runs`."""
