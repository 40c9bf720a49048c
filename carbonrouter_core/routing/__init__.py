"""Deciding where a turn runs: candidates, caches, policies."""
