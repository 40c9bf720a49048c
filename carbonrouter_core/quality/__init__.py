"""Predicted quality of answers, and how difficult prompts are."""
