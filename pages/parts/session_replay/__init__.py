"""Page Session replay, and what only this page uses."""
