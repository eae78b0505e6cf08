"""What the sliders drive: pure functions that know nothing of widgets, and can be printed and tested."""
