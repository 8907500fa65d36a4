"""Pictures as SVG: panels, curves, box plots and tables."""
