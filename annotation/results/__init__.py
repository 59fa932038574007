"""What needs judge and people together: merging, analysis, planner, reports, exports."""
