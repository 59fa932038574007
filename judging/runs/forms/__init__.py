"""What is special about each form of question: choice, pointwise, likelihood, PORTIA.

Everything that all forms share belongs to `planning` and `engine`.
"""
