"""The annotator's screen: one pair after another, blind."""
