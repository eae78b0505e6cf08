"""Exercise 1: who may read whom."""
