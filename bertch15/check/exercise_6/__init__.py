"""Exercise 6: the audit."""
