"""Work 000: headroom for elephant flows, and the calendar Calibers."""
