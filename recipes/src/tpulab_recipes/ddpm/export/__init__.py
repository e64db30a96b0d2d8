"""Export to diffusers, with the network and its pipeline in torch."""
