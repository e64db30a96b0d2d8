"""A diffusers pipeline for the exported network: what it is told comes as arrays, or as prompts for the
small encoders.

This file is copied into exported folders and imports nothing but numpy, torch and diffusers.
"""

import hashlib
import re

import numpy as np
import torch
from diffusers import DiffusionPipeline, ImagePipelineOutput
from diffusers.utils.torch_utils import randn_tensor

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


class NotInTheExport(ValueError):
    """What was asked needs an encoder or a decoder that the export does not hold. The message says what to
    give or to ask for instead."""

    code = "not_in_the_export"


class TpulabPipeline(DiffusionPipeline):
    """`pipeline(prompt=[…], guidance_scale=3.0, num_inference_steps=32).images`: Float32[image, height,
    width, 3] in [-1, 1], or latents with `output_type="latent"`. It runs where the network is: after
    `.to("cuda")` there, whatever the arrays came from."""

    def __init__(self, unet, scheduler, patch_pca=None, encoders=None, image_size=None):
        """`encoders`: what the network was trained with, by the names `clip`, `t5` and `vae`; `small` are
        those of TPULab, which need no weights. `image_size`: the side that the network is told."""
        super().__init__()
        self.register_modules(unet=unet, scheduler=scheduler)
        self.register_to_config(patch_pca=patch_pca, encoders=encoders, image_size=image_size)

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
        """`prompt` is a text, or a list of them. `context` (arrays by name, as in training) replaces it;
        `latents` is the noise to start from, [image, channel, height, width]."""
        config = self.unet.config
        prompts = [prompt] if isinstance(prompt, str) else list(prompt or [""])
        told = context if context is not None else self.tell(prompts, aesth_score)
        if output_type != "latent":
            self.check_decoder()
        device = self.unet.device
        told = {name: value.to(device) for name, value in told.items()}
        rows = [latents] if latents is not None else list(told.values())
        count = len(rows[0]) if rows else len(prompts)
        size = config.sample_size
        if latents is None:
            latents = randn_tensor((count, config.in_channels, size, size), generator, device)
        latents = latents.to(device)
        untold = {name: torch.zeros_like(value) for name, value in told.items()}
        if "class" in told:
            untold["class"] = torch.full_like(told["class"], config.conditioning["num_classes"])
        for both in (told, untold):
            if config.conditioning["inpainting"] and "mask" not in both:
                both["mask"] = torch.ones(count, 1, size, size, device=device)
                both["known"] = torch.zeros_like(latents)
        if "mask" in told:
            untold |= {"mask": told["mask"], "known": told["known"]}
        # Noise levels stay numbers of the host, which needs them for every step.
        self.scheduler.set_timesteps(num_inference_steps)
        # What is clipped must also be what the next step starts from, as in our own sampler.
        clipped = bool(self.scheduler.config.clip_sample)
        z = latents
        for timestep in self.progress_bar(self.scheduler.timesteps.tolist()):
            alpha = self.scheduler.alphas_cumprod[timestep].double()
            logsnr = torch.log(alpha / (1 - alpha)).float().expand(count).to(device)
            output = self.unet(z, logsnr, told)
            if guidance_scale != 1.0 and told:
                free = self.unet(z, logsnr, untold)
                output = free + guidance_scale * (output - free)
            z = self.scheduler.step(output, timestep, z, use_clipped_model_output=clipped).prev_sample
        if output_type == "latent":
            return ImagePipelineOutput(images=z)
        return ImagePipelineOutput(images=self.decode(z.movedim(1, -1).double().cpu().numpy()))

    def tell(self, prompts, aesth_score):
        """What the network is told for these prompts. An empty one tells it nothing, whatever the encoder."""
        conditioning = self.unet.config.conditioning
        self.check_prompts(prompts)
        count, told = len(prompts), {}
        for which in ("clip", "t5"):
            length, width = conditioning[f"{which}_length"], conditioning[f"{which}_width"]
            if width:
                told[f"{which}_emb"] = encode_text(prompts, length, width)
        if conditioning["clip_image_width"]:
            told["clip_image_emb"] = torch.zeros(count, conditioning["clip_image_width"])
        for name in conditioning["scalars"]:
            value = aesth_score if name == "aesth_score" else self.config.image_size
            told[name] = torch.full((count,), float(value))
        if conditioning["num_classes"]:
            told["class"] = torch.full((count,), conditioning["num_classes"])
        return told

    def check_prompts(self, prompts):
        """Raises `NotInTheExport` for words that nothing in this folder can tell the network."""
        if not any(prompts):
            return
        conditioning, encoders = self.unet.config.conditioning, self.config.encoders or {}
        texts = [which for which in ("clip", "t5") if conditioning[f"{which}_width"]]
        if not texts:
            instead = 'context={"class": …}' if conditioning["num_classes"] else "no prompt"
            raise NotInTheExport(f"This network knows no words (prompt={prompts!r}); give it {instead}.")
        missing = [which for which in texts if encoders.get(which) != "small"]
        if not missing:
            return
        arrays = [
            f"{which}_emb [image, {conditioning[f'{which}_length']}, {conditioning[f'{which}_width']}], the "
            f"states of {encoders.get(which)} padded with zeros"
            for which in missing
        ]
        if conditioning["clip_image_width"]:
            arrays.append(f"clip_image_emb [image, {conditioning['clip_image_width']}], zeros for no image")
        arrays += [f"{name} [image]" for name in conditioning["scalars"]]
        raise NotInTheExport(
            f"prompt={prompts!r} cannot be told: the export holds no text encoder. Give context={{…}} "
            f"instead: {'; '.join(arrays)}."
        )

    def check_decoder(self):
        """Raises `NotInTheExport` where latents cannot be made images here."""
        if self.config.patch_pca is None and self.unet.config.in_channels != 3:
            raise NotInTheExport(
                'The export holds no decoder for its latents. Ask for output_type="latent", and decode '
                "latents / vae.config.scaling_factor with the VAE of "
                f"{(self.config.encoders or {}).get('vae')}."
            )

    def decode(self, latents):
        pca = self.config.patch_pca
        if pca is None:
            return np.clip(latents, -1, 1).astype(np.float32)
        patches = latents / pca["scale"] @ np.asarray(pca["basis"]).T + np.asarray(pca["mean"])
        count, rows, columns, _ = patches.shape
        blocks = patches.reshape(count, rows, columns, PATCH, PATCH, 3).transpose(0, 1, 3, 2, 4, 5)
        return np.clip(blocks.reshape(count, rows * PATCH, columns * PATCH, 3), -1, 1).astype(np.float32)
