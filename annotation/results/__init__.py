"""What needs judge and people together: final labels, analysis, reports, exports, the planner.

Nothing below imports this package.
"""
