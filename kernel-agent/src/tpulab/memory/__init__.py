"""Who holds the memory of the devices. Knows of no run."""
