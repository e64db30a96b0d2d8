"""The network: a UNet with attention to its conditions."""

from tpulab_recipes.ddpm.model.network import Network, count_parameters
from tpulab_recipes.ddpm.model.unet import UNet

__all__ = ["Network", "UNet", "count_parameters"]
