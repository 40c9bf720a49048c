"""Page Energy planning, and what only this page uses."""
