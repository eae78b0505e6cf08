"""The demonstrations, a room for each: a model of pure functions, the view that paints it, and the controls."""
