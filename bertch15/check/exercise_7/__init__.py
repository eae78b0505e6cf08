"""Exercise 7: tie the decoder, and keep the controls."""
