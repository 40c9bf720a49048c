"""One thin file a page; what they share is in :mod:`pages.components`."""
