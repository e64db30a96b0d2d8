"""What the measurements of a run say together: rates, time left, use of the device, productive time."""
