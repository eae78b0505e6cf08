"""Exercise 2: what is drawn, and what is scored."""
