"""The discriminators, under the name of the seed's module."""

from tpulab_recipes.audio.hifigan import MultiPeriodDiscriminator as MultiPeriodDiscriminator
