"""Page Sensitivity, and what only this page uses."""
