"""What is special about each form of question: choice, pointwise, likelihood, PORTIA.

A form's module checks its settings when a run starts, says what is asked, and reads back what it
recorded. Everything that all forms share belongs to `planning` and `engine`.
"""
