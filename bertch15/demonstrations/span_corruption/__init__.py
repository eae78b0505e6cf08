"""The demonstration of 15.7: span corruption, and the same sentence as BERT and GPT see it."""
