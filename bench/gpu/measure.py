"""What only an accelerator can show, in one call: `npm run test:gpu` packs it, and a machine with an NVIDIA
GPU, JAX and PyTorch runs it.

    python bench/gpu/measure.py OUT.json [--packages FOLDER] [--seconds 480] [--cpu]

Each part runs in a separate process with a deadline, so that none takes another one's memory or time; a
failure is recorded with its reason. `--cpu` tests the script itself, without an accelerator.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]
#: Share of the whole time that a part may take.
PARTS: dict[str, float] = {
    "machine": 0.2,
    "clock_jax": 0.15,
    "clock_torch": 0.15,
    "memory_jax": 0.1,
    "memory_torch": 0.1,
    "executable": 0.12,
    "ddpm": 0.3,
    "english_tts": 0.15,
    "gpt_sovits": 0.15,
    "dia": 0.15,
}
STEPS = 40


def machine() -> dict[str, Any]:
    import jax
    import torch

    names = [str(device.device_kind) for device in jax.devices()]
    return {
        "python": platform.python_version(),
        "jax": jax.__version__,
        "torch": torch.__version__,
        "jax_devices": names,
        "torch_device": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "cpu",
    }


def clock_jax() -> dict[str, Any]:
    """The step clock against the true step time: the same loop with a wait for each step."""
    import jax
    import jax.numpy as jnp

    size = 512 if on_cpu() else 4096
    step = jax.jit(lambda x: (x @ x) / size)
    x = jnp.ones((size, size), jnp.float32 if on_cpu() else jnp.bfloat16)
    step(x).block_until_ready()
    began = time.perf_counter()
    for _ in range(STEPS):
        step(x).block_until_ready()
    truth_ms = 1e3 * (time.perf_counter() - began) / STEPS
    return beside_the_clock(lambda: step(x), truth_ms)


def clock_torch() -> dict[str, Any]:
    """The same in PyTorch, with device events as the reference."""
    import torch

    device = "cpu" if on_cpu() else "cuda"
    size = 256 if on_cpu() else 4096
    layer = torch.nn.Linear(size, size, device=device)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-6)
    x = torch.ones(size, size, device=device)

    def step() -> None:
        layer(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(5):
        step()
    if on_cpu():
        began = time.perf_counter()
        for _ in range(STEPS):
            step()
        truth_ms = 1e3 * (time.perf_counter() - began) / STEPS
    else:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        first.record()
        for _ in range(STEPS):
            step()
        last.record()
        torch.cuda.synchronize()
        truth_ms = first.elapsed_time(last) / STEPS
    return beside_the_clock(step, truth_ms)


def beside_the_clock(step: Callable[[], Any], truth_ms: float) -> dict[str, Any]:
    """Runs a loop whose host is faster than the device, and reads the agent's figures of it."""
    import tpulab
    from tpulab.agent import process_agent

    for _ in tpulab.steps(range(STEPS), name="truth"):
        step()
    agent = process_agent.current_agent()
    agent.settle(5.0)
    totals = agent.tracker.last_run.totals
    known = totals.known / max(totals.steps, 1)
    device_ms = totals.measured.device / 1e6 / max(totals.known, 1)
    return {
        "truth_ms": truth_ms,
        "clock_device_ms": device_ms,
        "known_share": known,
        "error": abs(device_ms - truth_ms) / truth_ms if known > 0.5 else None,
    }


def memory_jax() -> dict[str, Any]:
    import jax.numpy as jnp

    held = [jnp.ones((256, 1024, 1024), jnp.float32)]
    return out_of_memory(lambda: held.append(jnp.ones((1 << 22, 1 << 20), jnp.float32)))


def memory_torch() -> dict[str, Any]:
    import torch

    device = "cpu" if on_cpu() else "cuda"
    torch.nn.Linear(2, 2, device=device)
    held = [torch.ones(256, 1024, 1024, device=device)]
    return out_of_memory(lambda: held.append(torch.ones(1 << 22, 1 << 20, device=device)))


def out_of_memory(ask: Callable[[], Any]) -> dict[str, Any]:
    """The agent's report of an impossible allocation, and the owners that it names."""
    from tpulab.agent import process_agent
    from tpulab.memory.error import memory_error

    agent = process_agent.current_agent()
    try:
        ask()
    except Exception as error:
        message = memory_error(error, 1, None, None, agent.devices.read)
        text = f"{type(error).__name__}: {error}"[:600]
        return {"text": text, "read": message is not None, "message": message}
    return {"read": False, "text": "The allocation was possible."}


def executable() -> dict[str, Any]:
    """A compiled program carried to another process, which loads it instead of compiling."""
    import jax
    import jax.numpy as jnp
    from jax.experimental.serialize_executable import deserialize_and_load, serialize

    x = jnp.arange(1024.0).reshape(32, 32)
    compiled = jax.jit(lambda v: jnp.tanh(v @ v.T).sum()).lower(x).compile()
    payload, in_tree, out_tree = serialize(compiled)
    if (carried := os.environ.get("TPULAB_GPU_CARRIED")) is not None:
        began = time.perf_counter()
        loaded = deserialize_and_load(Path(carried).read_bytes(), in_tree, out_tree)
        return {"loaded_s": time.perf_counter() - began, "value": float(loaded(x))}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "program")
        place.write_bytes(payload)
        other = run_part("executable", 120, {"TPULAB_GPU_CARRIED": str(place)})
    value = float(compiled(x))
    return {"bytes": len(payload), "value": value, "other": other, "equal": other.get("value") == value}


def ddpm() -> dict[str, Any]:
    """The whole training step of the diffusion recipe: steps per second, and the share of the device's
    peak."""
    from tpulab_recipes.common.progress import Silent
    from tpulab_recipes.ddpm.presets import PRESETS
    from tpulab_recipes.ddpm.training.benchmark import measured_rows

    name, batch, steps = ("small", 8, 2) if on_cpu() else ("cifar10", None, 20)
    [row] = measured_rows([(name, PRESETS[name], batch)], steps, Silent())
    return dict(row)


def english_tts() -> dict[str, Any]:
    return voice("export_english_tts")


def gpt_sovits() -> dict[str, Any]:
    return voice("export_gpt_sovits")


def dia() -> dict[str, Any]:
    return voice("export_dia")


def voice(script: str) -> dict[str, Any]:
    """Training steps of a voice, as in the test of its export, on the GPU."""
    import importlib.util

    from tpulab_recipes.compile_ahead import torch_export
    from tpulab_recipes.english_tts.device_type import DeviceType, GraphicsBackend
    from tpulab_recipes.runtime.cpu import CpuBackend

    found: dict[str, Any] = {}
    backend = CpuBackend("cpu") if on_cpu() else GraphicsBackend(DeviceType.CUDA)

    def run(_: Any, step: Callable[[Any], Any], batch: Any, **_more: Any) -> Any:
        for which in ("first_step_s", "second_step_s"):
            began = time.perf_counter()
            figures = backend.to_host(step(batch))
            found[which] = time.perf_counter() - began
        leaves = torch_export._tensors(figures)
        found["finite"] = all(bool(leaf.isfinite().all()) for leaf in leaves)
        raise SystemExit(0)

    torch_export.LoweringBackend = lambda: backend  # type: ignore[assignment,misc]
    torch_export.export_step = run
    from tpulab_recipes.torch_training import export

    export.export_step = run
    place = ROOT / "recipes" / "tests" / "torch_aot" / f"{script}.py"
    spec = importlib.util.spec_from_file_location(script, place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with contextlib.suppress(SystemExit):
        module.main("unused" if script == "export_english_tts" else ["unused"])
    return {"device": backend.describe(), **found}


def on_cpu() -> bool:
    return os.environ.get("TPULAB_GPU_ON_CPU") == "1"


def run_part(name: str, seconds: float, more: dict[str, str] | None = None) -> dict[str, Any]:
    """Runs a part in a separate process; a failure is a result too."""
    environment = {**os.environ, **(more or {})}
    began = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, str(HERE), "--part", name],
            env=environment,
            capture_output=True,
            text=True,
            timeout=max(seconds, 1),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"It took longer than {seconds:.0f} s."}
    answers = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not answers:
        reason = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        return {"failed": f"exit status {done.returncode}: {reason[:500]}"}
    return {**json.loads(answers[-1]), "took_s": round(time.monotonic() - began, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", nargs="?", help="file for the figures, as JSON")
    parser.add_argument("--packages", default="", help="folder with packages that this Python lacks")
    parser.add_argument("--seconds", type=float, default=480.0, help="for all parts together")
    parser.add_argument("--cpu", action="store_true", help="try the script without an accelerator")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(globals()[options.part]()))
        return 0
    if not options.out:
        parser.error("say where the figures go: measure.py OUT.json")
    own = [ROOT / "kernel-agent" / "src", ROOT / "recipes" / "src"]
    # Behind the packages of this Python, which has its own NumPy: packed ones only fill gaps.
    paths = [*map(str, own), *([options.packages] if options.packages else [])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if options.cpu:
        # A test, not a measurement: programs that compile in a third of the time, and no import of torch_tpu.
        os.environ.update(TPULAB_GPU_ON_CPU="1", JAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="")
        os.environ.update(
            XLA_FLAGS="--xla_backend_optimization_level=0",
            TORCH_DEVICE_BACKEND_AUTOLOAD="0",
            OMP_NUM_THREADS="1",
        )
    began = time.monotonic()
    figures: dict[str, Any] = {}
    for name, share in PARTS.items():
        left = options.seconds - (time.monotonic() - began)
        limit = min(left, share * options.seconds)
        figures[name] = run_part(name, limit) if left > 5 else {"failed": "No time was left."}
        print(f"{name}: {json.dumps(figures[name])[:300]}", flush=True)
        card = figures["machine"].get("torch_device", "unknown")
        written = {"card": card, "seconds": round(time.monotonic() - began, 1), "parts": figures}
        Path(options.out).write_text(json.dumps(written, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
