"""Carbon-intensity series: importing a user's own, choosing, what can be known, what they say."""
