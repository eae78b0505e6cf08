"""What a page or a terminal shows beside figures: progress, definitions, and the chapter's printed lines."""
