"""Widgets, charts, maps, words and caches shared by the pages."""
