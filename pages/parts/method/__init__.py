"""Page Method, and what only this page uses."""
