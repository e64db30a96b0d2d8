"""The owners of the memory of the devices. Independent of runs."""
