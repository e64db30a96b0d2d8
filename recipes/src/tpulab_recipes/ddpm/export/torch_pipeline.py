"""A diffusers pipeline for the exported network: prompts in, images out.

This file is copied into exported folders and imports nothing but numpy, torch and diffusers.
"""

import hashlib
import inspect
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from diffusers import DiffusionPipeline, ImagePipelineOutput
from diffusers.utils.torch_utils import randn_tensor

PATCH = 2
#: Encoders of text, with what their parts' names end in.
TEXTS = {"clip": "", "t5": "_2", "bert": "_3"}


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
    """The call needs an encoder or a decoder that the export does not hold. The message says what to
    give or to ask for instead."""

    code = "not_in_the_export"


class TpulabPipeline(DiffusionPipeline):
    """`pipeline(["a red circle"], guidance_scale=3.0).images`: PIL images, as of diffusers' own pipelines.

    It runs where its network is: after `.to("cuda")` there, whatever device the arguments are on.
    """

    model_cpu_offload_seq = "->".join(
        [*(f"text_encoder{ending}" for ending in TEXTS.values()), "unet", "vae"]
    )
    # diffusers reads a list, and never changes it.
    _optional_components = [  # noqa: RUF012
        "vae",
        *(f"text_encoder{ending}" for ending in TEXTS.values()),
        *(f"tokenizer{ending}" for ending in TEXTS.values()),
    ]

    def __init__(
        self,
        unet,
        scheduler,
        text_encoder=None,
        tokenizer=None,
        text_encoder_2=None,
        tokenizer_2=None,
        text_encoder_3=None,
        tokenizer_3=None,
        vae=None,
        patch_pca=None,
        encoders=None,
        image_size=None,
    ):
        """`text_encoder` is CLIP's, `text_encoder_2` T5's, `text_encoder_3` BERT's. `encoders`: what the
        network was trained with, by the names of `TEXTS` and `vae`; `small` are those of TPULab, which need
        no weights. `image_size`: the side in pixels that the network is conditioned on."""
        super().__init__()
        self.register_modules(
            unet=unet,
            scheduler=scheduler,
            text_encoder=text_encoder,
            tokenizer=tokenizer,
            text_encoder_2=text_encoder_2,
            tokenizer_2=tokenizer_2,
            text_encoder_3=text_encoder_3,
            tokenizer_3=tokenizer_3,
            vae=vae,
        )
        self.register_to_config(patch_pca=patch_pca, encoders=encoders, image_size=image_size)

    @torch.no_grad()
    def __call__(
        self,
        prompt=None,
        negative_prompt=None,
        num_images_per_prompt=1,
        context=None,
        aesth_score=6.5,
        guidance_scale=1.0,
        num_inference_steps=50,
        latents=None,
        generator=None,
        output_type="pil",
        return_dict=True,
    ):
        """Images for the prompts: a text, or a list of them.

        `context` (arrays by name, as in training) replaces the prompt; `latents` is the noise to start from,
        [image, channel, height, width]. `negative_prompt` takes the place of no prompt in the guidance, for
        a `guidance_scale` other than 1. `output_type`: `pil`; `np`, Float32[image, height, width, 3] in
        [0, 1]; `pt`, the same as a tensor, channels first; or `latent`.
        """
        if output_type not in ("pil", "np", "pt", "latent"):
            raise ValueError(f"output_type={output_type!r} must be pil, np, pt or latent")
        config, device = self.unet.config, self.unet.device
        prompts = [prompt] if isinstance(prompt, str) else list(prompt or [""])
        conditions = context if context is not None else self.conditions_for(prompts, aesth_score)
        if absent := self.conditions_for([""], aesth_score).keys() - conditions.keys():
            raise NotInTheExport(
                f"context lacks {', '.join(sorted(absent))}; give zeros for what is unknown."
            )
        given = len(next(iter(conditions.values()), prompts))
        if output_type != "latent":
            self.check_decoder()
        unconditional = None
        if negative_prompt is not None:
            negative = [negative_prompt] if isinstance(negative_prompt, str) else list(negative_prompt)
            if len(negative) not in (1, given):
                raise ValueError(f"negative_prompt has {len(negative)} texts, and prompt {given}")
            unconditional = self.conditions_for(negative * (given // len(negative)), aesth_score)
            unconditional |= {
                name: torch.zeros_like(unconditional[name]) for name in config.conditioning["scalars"]
            }

        def placed(values):
            return {
                name: value.to(device).repeat_interleave(num_images_per_prompt, dim=0)
                for name, value in values.items()
            }

        conditions = placed(conditions)
        rows = [latents] if latents is not None else list(conditions.values())
        count = len(rows[0]) if rows else len(prompts) * num_images_per_prompt
        size = config.sample_size
        if latents is None:
            latents = randn_tensor((count, config.in_channels, size, size), generator, device)
        latents = latents.to(device)
        unconditional = (
            {name: torch.zeros_like(value) for name, value in conditions.items()}
            if unconditional is None
            else placed(unconditional)
        )
        if "class" in conditions:
            unconditional["class"] = torch.full_like(conditions["class"], config.conditioning["num_classes"])
        for both in (conditions, unconditional):
            if config.conditioning["inpainting"] and "mask" not in both:
                both["mask"] = torch.ones(count, 1, size, size, device=device)
                both["known"] = torch.zeros_like(latents)
        if "mask" in conditions:
            unconditional |= {"mask": conditions["mask"], "known": conditions["known"]}
        # Noise levels stay numbers of the host, which needs them for every step.
        self.scheduler.set_timesteps(num_inference_steps)
        z = latents * getattr(self.scheduler, "init_noise_sigma", 1.0)
        for timestep in self.progress_bar(self.scheduler.timesteps):
            shown = self.scheduler.scale_model_input(z, timestep)
            alpha = self.scheduler.alphas_cumprod[int(timestep)].double()
            logsnr = torch.log(alpha / (1 - alpha)).float().expand(count).to(device)
            output = self.unet(shown, logsnr, conditions)
            if guidance_scale != 1.0 and conditions:
                free = self.unet(shown, logsnr, unconditional)
                output = free + guidance_scale * (output - free)
            z = self.scheduler.step(output, timestep, z, **self.step_options(generator)).prev_sample
        if output_type == "latent":
            images = z
        else:
            images = (self.decode(z) + 1) / 2
            if output_type == "pt":
                images = torch.from_numpy(images).movedim(-1, 1)
            elif output_type == "pil":
                images = self.numpy_to_pil(images)
        return ImagePipelineOutput(images=images) if return_dict else (images,)

    def step_options(self, generator):
        """Further arguments of this scheduler's step, besides the network's output."""
        takes = inspect.signature(self.scheduler.step).parameters
        options = {}
        if "use_clipped_model_output" in takes:
            # The next step starts from the clipped value, as in the sampler in JAX.
            options["use_clipped_model_output"] = bool(self.scheduler.config.clip_sample)
        if "generator" in takes:
            options["generator"] = generator
        return options

    def save_pretrained(self, save_directory, **more):
        """As `DiffusionPipeline.save_pretrained`, with the two files of code, so that the folder loads as the
        first one did."""
        super().save_pretrained(save_directory, **more)
        folder = Path(save_directory)
        pipeline, unet = (
            Path(sys.modules[kind.__module__].__file__) for kind in (type(self), type(self.unet))
        )
        shutil.copyfile(pipeline, folder / "torch_pipeline.py")
        shutil.copyfile(unet, folder / "unet" / "torch_unet.py")
        index = json.loads((folder / "model_index.json").read_text())
        index |= {"_class_name": ["torch_pipeline", "TpulabPipeline"], "unet": ["torch_unet", "UNet"]}
        (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")

    @torch.no_grad()
    def conditions_for(self, prompts, aesth_score):
        """The conditions of these prompts, by name. An empty prompt conditions nothing."""
        conditioning = self.unet.config.conditioning
        self.check_prompts(prompts)
        count, conditions = len(prompts), {}
        for which in self.texts():
            length, width = conditioning[f"{which}_length"], conditioning[f"{which}_width"]
            if any(prompts) and (self.config.encoders or {}).get(which) != "small":
                conditions[f"{which}_emb"] = self.states(which, prompts, length)
            else:
                conditions[f"{which}_emb"] = encode_text(prompts, length, width)
        if conditioning["clip_image_width"]:
            conditions["clip_image_emb"] = torch.zeros(count, conditioning["clip_image_width"])
        for name in conditioning["scalars"]:
            value = aesth_score if name == "aesth_score" else self.config.image_size
            conditions[name] = torch.full((count,), float(value))
        if conditioning["num_classes"]:
            conditions["class"] = torch.full((count,), conditioning["num_classes"])
        return conditions

    def texts(self):
        """The text encoders whose states the network uses. Older exports do not list all of them."""
        return [which for which in TEXTS if self.unet.config.conditioning.get(f"{which}_width")]

    def states(self, which, prompts, length):
        """Text states [prompt, length, width]: CLIP's last but one layer, else the last; zeros for
        padding."""
        model, tokenizer = (getattr(self, part + TEXTS[which]) for part in ("text_encoder", "tokenizer"))
        tokens = tokenizer(
            prompts, truncation=True, max_length=length, padding="max_length", return_tensors="pt"
        ).to(model.device)
        found = model(**tokens, output_hidden_states=which == "clip")
        states = found.hidden_states[-2] if which == "clip" else found.last_hidden_state
        spoken = torch.tensor([bool(prompt) for prompt in prompts], device=model.device)
        return states.float() * (tokens["attention_mask"] * spoken[:, None])[..., None]

    def check_prompts(self, prompts):
        """Raises `NotInTheExport` for prompts that nothing in this folder can encode."""
        if not any(prompts):
            return
        conditioning, encoders = self.unet.config.conditioning, self.config.encoders or {}
        texts = self.texts()
        if not texts:
            instead = 'context={"class": …}' if conditioning["num_classes"] else "no prompt"
            raise NotInTheExport(f"This network knows no words (prompt={prompts!r}); give it {instead}.")
        missing = [
            which
            for which in texts
            if encoders.get(which) != "small" and getattr(self, f"text_encoder{TEXTS[which]}") is None
        ]
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
            f"prompt={prompts!r} cannot be encoded: the export holds no text encoder; export it again with "
            f"--with-encoders. Or give context={{…}} instead: {'; '.join(arrays)}."
        )

    def check_decoder(self):
        """Raises `NotInTheExport` when latents cannot be decoded here."""
        if self.vae is None and self.config.patch_pca is None and self.unet.config.in_channels != 3:
            raise NotInTheExport(
                "The export holds no decoder for its latents; export it again with --with-encoders. Or ask "
                'for output_type="latent", and decode latents / vae.config.scaling_factor with the VAE of '
                f"{(self.config.encoders or {}).get('vae')}."
            )

    def decode(self, latents):
        """Float32[image, height, width, 3] in [-1, 1] of latents [image, channel, height, width]."""
        if self.vae is not None:
            options = self.vae.config
            latents = latents.to(self.vae.dtype) / options.scaling_factor + (options.shift_factor or 0.0)
            # One at a time: a batch of decoded images of 512 pixels takes tens of gigabytes.
            pieces = [self.vae.decode(row[None]).sample.float().cpu() for row in latents]
            return torch.cat(pieces).movedim(1, -1).clamp(-1, 1).numpy()
        latents, pca = latents.movedim(1, -1).double().cpu().numpy(), self.config.patch_pca
        if pca is None:
            return np.clip(latents, -1, 1).astype(np.float32)
        patches = latents / pca["scale"] @ np.asarray(pca["basis"]).T + np.asarray(pca["mean"])
        count, rows, columns, _ = patches.shape
        blocks = patches.reshape(count, rows, columns, PATCH, PATCH, 3).transpose(0, 1, 3, 2, 4, 5)
        return np.clip(blocks.reshape(count, rows * PATCH, columns * PATCH, 3), -1, 1).astype(np.float32)
