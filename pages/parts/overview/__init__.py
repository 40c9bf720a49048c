"""Page Overview, and what only this page uses."""
