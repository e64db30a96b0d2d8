"""Diffusion and latent diffusion in JAX: data, training on a mesh, sampling, distillation, export.

`docs/ddpm.md` is the guide, `python -m tpulab_recipes.ddpm --help` the command line. Importing this package
imports nothing; take what you need from its modules.
"""
