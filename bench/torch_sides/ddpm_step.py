"""The torch side of `ddpm`: a training step of an exported network, timed.

`python ddpm_step.py FOLDER BATCH STEPS` prints medians, `{"ms": …, "cpuMs": …}`. Needs torch and diffusers,
no JAX.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import torch
from diffusers import DiffusionPipeline


def main() -> None:
    folder, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    pipeline = DiffusionPipeline.from_pretrained(
        folder, custom_pipeline=f"{folder}/torch_pipeline.py", trust_remote_code=True
    )
    unet = pipeline.unet.train()
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=1e-3)
    size, channels = unet.config.sample_size, unet.config.in_channels
    x = torch.randn(batch, channels, size, size)
    reported = pipeline.tell(["a large red circle"] * batch, 6.5)
    reported |= {"mask": torch.ones(batch, 1, size, size), "known": x}
    times, used = [], []
    for _ in range(steps + 1):
        started, ran = time.perf_counter(), time.process_time()
        logsnr = torch.empty(batch).uniform_(-10, 10)
        alpha, sigma = (
            logsnr.sigmoid().sqrt()[:, None, None, None],
            (-logsnr).sigmoid().sqrt()[:, None, None, None],
        )
        loss = (unet(alpha * x + sigma * torch.randn_like(x), logsnr, reported) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        times.append((time.perf_counter() - started) * 1e3)
        used.append((time.process_time() - ran) * 1e3)
    found = {"ms": statistics.median(times[1:]), "cpuMs": statistics.median(used[1:])}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
