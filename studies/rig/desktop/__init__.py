"""Real desktops in a lab: a test card that shows numbers, and a screen that says when."""
