"""Runs: started, asked, recorded as answers come in, and recovered after whatever cut them off."""
