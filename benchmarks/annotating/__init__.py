"""Many people labelling a large round: its data, one person's requests, fifty people at once."""
