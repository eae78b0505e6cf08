"""Exercise 4: a probe against full fine-tuning."""
