"""Plotting: arrays and labels -> Axes, SVG, HTML and terminal lines; independent of result types."""
