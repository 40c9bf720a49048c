"""Page Scenario, and what only this page uses."""
