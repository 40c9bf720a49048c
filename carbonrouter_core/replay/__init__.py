"""Replaying a whole trace under policies, and charging what they decided."""
