"""The frame that all demonstrations share: what one shows, and the controls that move it."""
