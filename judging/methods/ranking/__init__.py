"""Orders: examples by how much they need a person, and models by their wins.

What an order achieves belongs to `review`.
"""
