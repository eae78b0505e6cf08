"""Exercise 5: three gates, and a test declared in advance."""
