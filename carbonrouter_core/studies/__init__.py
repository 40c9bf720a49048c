"""Questions asked of many scenarios: sweeps, sensitivity, seasons, a year."""
