"""Page Compare, and what only this page uses."""
