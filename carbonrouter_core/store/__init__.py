"""What the user keeps: traces, carbon-intensity series, sites, scenarios and runs."""
