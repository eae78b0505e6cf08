"""What the two other families of pretraining need: removed spans, next-token models, decoding."""
