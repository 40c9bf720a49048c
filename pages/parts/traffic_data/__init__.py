"""Page Traffic data, and what only this page uses."""
