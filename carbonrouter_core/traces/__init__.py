"""Traces: what they hold, where they come from, and how they are placed in time."""
