"""The drawing room: arrays and labels -> Axes, SVG, HTML; what results use to show themselves."""
