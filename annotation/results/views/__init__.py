"""The pages that need judge and people together."""
