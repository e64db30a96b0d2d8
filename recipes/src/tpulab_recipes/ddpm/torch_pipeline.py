"""A diffusers pipeline for the exported network: what it is told comes as arrays, or as prompts for the
small encoders.

This file is copied into exported folders and imports nothing but numpy, torch and diffusers.
"""

import hashlib
import re

import numpy as np
import torch
from diffusers import DiffusionPipeline

PATCH = 2


def encode_text(prompts, length, width):
    """The hashed words of TPULab's small text encoder: [prompt, length, width]."""
    states = np.zeros((len(prompts), length, width), np.float32)
    for row, prompt in enumerate(prompts):
        for place, word in enumerate(re.findall(r"[^\W_]+", prompt.lower())[:length]):
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
            vector = np.random.default_rng(seed).standard_normal(width)
            states[row, place] = vector / np.linalg.norm(vector) * np.sqrt(width) / 2
    return torch.from_numpy(states)


class TpulabPipeline(DiffusionPipeline):
    """`pipeline(prompt=[…], guidance_scale=3.0, num_inference_steps=32).images`: Float32[image, height,
    width, 3] in [-1, 1], or latents with `output_type="latent"`."""

    def __init__(self, unet, scheduler, patch_pca=None):
        super().__init__()
        self.register_modules(unet=unet, scheduler=scheduler)
        self.register_to_config(patch_pca=patch_pca)

    @torch.no_grad()
    def __call__(
        self,
        prompt=None,
        context=None,
        aesth_score=6.5,
        guidance_scale=1.0,
        num_inference_steps=50,
        latents=None,
        generator=None,
        output_type="np",
    ):
        """`context` (arrays by name, as in training) replaces `prompt`; `latents` is the noise to start from,
        [image, channel, height, width]."""
        config = self.unet.config
        told = dict(context) if context is not None else self.tell(prompt or [""], aesth_score)
        count = len(next(iter(told.values()))) if told else 1
        size = config.sample_size
        if latents is None:
            latents = torch.randn(count, config.in_channels, size, size, generator=generator)
        untold = {name: torch.zeros_like(value) for name, value in told.items()}
        if "class" in told:
            untold["class"] = torch.full_like(told["class"], config.conditioning["num_classes"])
        for both in (told, untold):
            if config.conditioning["inpainting"] and "mask" not in both:
                both["mask"] = torch.ones(count, 1, size, size)
                both["known"] = torch.zeros_like(latents)
        if "mask" in told:
            untold |= {"mask": told["mask"], "known": told["known"]}
        self.scheduler.set_timesteps(num_inference_steps)
        z = latents
        for timestep in self.progress_bar(self.scheduler.timesteps):
            alpha = self.scheduler.alphas_cumprod[timestep].double()
            logsnr = torch.log(alpha / (1 - alpha)).float().expand(count)
            output = self.unet(z, logsnr, told)
            if guidance_scale != 1.0:
                free = self.unet(z, logsnr, untold)
                output = free + guidance_scale * (output - free)
            z = self.scheduler.step(output, timestep, z).prev_sample
        if output_type == "latent":
            return {"images": z}
        return {"images": self.decode(z.movedim(1, -1).double().numpy())}

    def tell(self, prompts, aesth_score):
        conditioning = self.unet.config.conditioning
        told = {}
        if conditioning["clip_width"]:
            told["clip_emb"] = encode_text(prompts, conditioning["clip_length"], conditioning["clip_width"])
        if "aesth_score" in conditioning["scalars"]:
            told["aesth_score"] = torch.full((len(prompts),), float(aesth_score))
        return told

    def decode(self, latents):
        pca = self.config.patch_pca
        if pca is None:
            return np.clip(latents, -1, 1).astype(np.float32)
        patches = latents / pca["scale"] @ np.asarray(pca["basis"]).T + np.asarray(pca["mean"])
        count, rows, columns, _ = patches.shape
        blocks = patches.reshape(count, rows, columns, PATCH, PATCH, 3).transpose(0, 1, 3, 2, 4, 5)
        return np.clip(blocks.reshape(count, rows * PATCH, columns * PATCH, 3), -1, 1).astype(np.float32)
