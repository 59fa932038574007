"""PORTIA: split both responses, align the parts, and ask about them side by side.

Li, Wang, Ma, Wu, Wang, Gao and Liu, Split and Merge: Aligning Position Biases in LLM-based
Evaluators (EMNLP 2024).  Sections and equations named here are that paper's.
"""
