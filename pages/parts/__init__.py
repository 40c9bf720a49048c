"""What only one page uses: a folder a page, of the same name as its script."""
