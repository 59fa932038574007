"""Pages of projects, examples, imports and runs."""
