"""Page Report, and what only this page uses."""
