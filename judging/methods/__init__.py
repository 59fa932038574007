"""The science of FairJudge: pure functions on numbers, strings and arrays.

Nothing here reads a file, a clock, a network or a database, and nothing needs Django.
Randomness comes in as a seed or a `numpy.random.Generator`.

A number that cannot be had is an `Undefined` with the reason (`judging.methods.estimates`);
it is returned, never raised, and never replaced by a default.  Wrong arguments raise
`ValueError`.  A figure with an interval is an `Estimate`.

Labels and outcomes are `win`, `tie` and `lose` from response 1's point of view.  Whatever was
shown in which order has been turned back to responses 1 and 2 before it comes here.
"""
