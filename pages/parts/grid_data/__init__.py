"""Page Grid data, and what only this page uses."""
