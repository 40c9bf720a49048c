"""What can serve a turn, and what serving it costs."""
