"""What replays come to: figures, differences, and the story of single conversations."""
