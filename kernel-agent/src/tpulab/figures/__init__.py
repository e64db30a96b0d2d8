"""Figures derived from the measurements of a run: rates, time left, use of the device, productive time."""
