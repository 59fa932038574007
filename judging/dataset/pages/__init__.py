"""Pages and forms for importing pairs and scores.

The rules of an import belong to the modules above; a page only calls them.
"""
