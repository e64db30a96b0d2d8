"""The device seam: one way to say device, step, world and transfer, whatever framework and chip there are."""
