"""The demonstrations with their sliders: thin skins over `bertch15.demonstrations`. Only they use ipywidgets."""
