"""Likelihood bias of a judge that scores single responses (Ohi et al., ACL 2024)."""
