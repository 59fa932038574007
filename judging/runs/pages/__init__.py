"""Pages and forms for starting, watching and reading runs, templates and examples.

A page fetches, checks permission, calls one function and renders.
"""
