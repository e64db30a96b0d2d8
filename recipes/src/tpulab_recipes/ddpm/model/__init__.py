"""The network: a UNet with attention to its conditions."""

from tpulab_recipes.ddpm.model.unet import Network, UNet, count_parameters

__all__ = ["Network", "UNet", "count_parameters"]
