"""Plotting: arrays and labels -> Axes, SVG, HTML and terminal lines; knows no result type."""
