"""The annotator's screen: one pair after another, blind.

It sees an example only as a `BlindPair` and knows nothing of the judge.
"""
