"""Third-party loops, each measured independently too: the agent's figures against the truth.

`python foreign_loops.py` writes the table of `docs/step-clock.md`: in the environment `jax` (flax, optax and
grain) the first rows, in `torch-xla` the last ones.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
DEVICES = 2
#: The first steps compile, or start compiled programs.
UNSTEADY = 3

HEAD = """
import json, time, warnings
import numpy as np, jax, jax.numpy as jnp, tpulab
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from tpulab.agent.process_agent import current_agent

warnings.simplefilter("ignore")
agent, seen = current_agent(), []
agent.recorder.taps.append(seen.extend)
turns, waited, evaluated, worked, looks, compiled = [], [], [], [], [], []


def slowly(items, seconds=0.004):
    for item in items:
        began = time.perf_counter()
        time.sleep(seconds)
        waited.append(time.perf_counter() - began)
        yield item


class Evaluation:
    runs = False

    def __enter__(self):
        Evaluation.runs, self.began = True, time.perf_counter()

    def __exit__(self, *_):
        Evaluation.runs = False
        evaluated.append(time.perf_counter() - self.began)


class Work:
    # A program from its call to its result: what the device is busy with, where each turn waits for it.
    def __enter__(self):
        self.began = time.perf_counter()

    def __exit__(self, *_):
        worked.append(time.perf_counter() - self.began)


def clocked(steps, total=None):
    # A turn as the loop lives it: from one request for an item to the next.
    began = time.perf_counter()
    for item in steps:
        yield item
        now = time.perf_counter()
        turns.append(now - began)
        began = now
        if total is not None and len(turns) == total // 2:
            looks.append((now, agent.tracker.last_run))
            agent.settle(5)
            looks[0] += (agent.tracker.last_run.throughput.message(agent.tracker.last_run.figures()),)
    if looks:
        looks.append(time.perf_counter())


def report(run, loss=None, flops=None):
    run.finish()
    agent.settle(5)
    report_of(run._tracked.run, loss, flops)


def report_of(tracked, loss=None, flops=None):
    steps = [one for m in seen if m["type"] == "steps" and m["run"] == tracked.id for one in m["steps"]]
    figures = tracked.throughput.message(tracked.figures()) if tracked.throughput else None
    spans = ("inputMs", "hostMs", "compileMs", "deviceMs", "gapMs")
    steady = slice(UNSTEADY, None)
    mean = lambda values: 1e3 * float(np.mean(values))
    reported = {
        "steps": len(steps),
        "ms": float(np.mean([one["wallMs"] for one in steps[steady]])),
        "input": float(np.mean([one["inputMs"] for one in steps[steady]])) if waited else None,
        "device": float(np.mean([one["deviceMs"] for one in steps[steady]])),
        "evaluations": figures["goodput"]["badputMs"].get("CUSTOM_BADPUT_EVENTS")
        if evaluated and figures
        else None,
        "goodput": figures["goodput"]["productiveMs"] if worked else None,
        "left": looks[0][2]["etaSeconds"] if looks else None,
        "flops": figures["mfu"]["flopsPerStep"] if flops and figures["mfu"] else None,
        "compilations": tracked.compilations if compiled else None,
        "loss": tracked.metrics.get("loss") if loss is not None else None,
        "spans": sum(one[name] for one in steps for name in spans)
        + sum(sum(one.get("bands", {}).values()) for one in steps),
        "walls": sum(one["wallMs"] for one in steps),
        "exact": figures["mfu"]["source"] == "counted" if flops and figures["mfu"] else None,
    }
    true = {
        "steps": len(turns),
        "ms": mean(turns[steady]),
        "input": mean(waited[UNSTEADY : len(turns)]) if waited else None,
        "evaluations": 1e3 * sum(evaluated) if evaluated else None,
        "goodput": 1e3 * sum(worked[1:]) if worked else None,
        "left": looks[1] - looks[0][0] if looks else None,
        "flops": flops,
        "compilations": compiled[-1] - compiled[0] if compiled else None,
        "loss": float(loss) if loss is not None else None,
    }
    print(json.dumps({"reported": reported, "true": true}))


def start(**more):
    return tpulab.run("loop", log=False, peak_flops=1e12, **more)


""".replace("UNSTEADY", str(UNSTEADY))

LOOPS = {
    "flax nnx, optax and grain": """
        import grain.python as grain, optax
        from flax import nnx

        model = nnx.Linear(16, 4, use_bias=False, rngs=nnx.Rngs(0))
        optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)

        @nnx.jit
        def train(model, optimizer, x):
            value, gradient = nnx.value_and_grad(lambda m: jnp.square(m(x)).mean())(model)
            optimizer.update(model, gradient)
            return value

        data = grain.MapDataset.range(40).map(lambda i: np.full((8, 16), i / 40, np.float32))
        run = start()
        for x in clocked(run.steps(slowly(data.to_iter_dataset()), total=40)):
            loss = train(model, optimizer, x)
            run.log(loss=loss)
        report(run, loss)
    """,
    "pmap on two devices": """
        step = jax.pmap(lambda x: x @ x)
        x = step(jnp.ones((2, 64, 64)) / 64)
        run = start()
        for _ in clocked(run.steps(slowly(range(60)), total=60), 60):
            x = step(x)
            run.log(loss=x[0, 0, 0])
        report(run, x[0, 0, 0], flops=2 * 2 * 64**3)
    """,
    "shard_map on two devices": """
        mesh = Mesh(np.array(jax.devices()), ("data",))
        place = NamedSharding(mesh, P("data"))
        split = {"mesh": mesh, "in_specs": P("data"), "out_specs": P("data")}
        step = jax.jit(jax.shard_map(lambda x: x @ (x.T @ x), **split))
        x = jax.device_put(np.ones((64, 32), np.float32) / 32, place)
        run = start()
        for _ in clocked(run.steps(slowly(range(60)), total=60), 60):
            x = step(x)
            jax.block_until_ready(x)
            run.log(loss=7)
        report(run, 7, flops=2 * (2 * 2 * 32 * 32 * 32))
    """,
    "lax.scan of 100 updates a call": """
        @jax.jit
        def many(w):
            return jax.lax.scan(lambda w, _: (w @ w, None), w, length=100)[0]

        w = jnp.eye(32)
        run = start(updates_per_step=100)
        for _ in clocked(run.steps(slowly(range(60)), total=60), 60):
            w = many(w)
            run.log(loss=w[0, 0])
        report(run, w[0, 0], flops=100 * 2 * 32**3)
    """,
    "gradient accumulation, three jitted functions": """
        gradient = jax.jit(jax.grad(lambda w, x: (x @ w).sum()))
        add = jax.jit(lambda a, b: jax.tree.map(jnp.add, a, b))
        update = jax.jit(lambda w, g: w - 0.1 * g)
        w, x = jnp.ones((16, 4)), jnp.ones((8, 16))
        run = start()
        for _ in clocked(run.steps(slowly(range(50)), total=50), 50):
            sums = gradient(w, x)
            for _ in range(3):
                sums = add(sums, gradient(w, x))
            w = update(w, sums)
            run.log(loss=w[0, 0])
        report(run, w[0, 0])
    """,
    "an evaluation each 20 steps": """
        step, evaluate = jax.jit(lambda x: x @ x), jax.jit(lambda x: x.sum())
        x = jnp.eye(64)
        run = start()
        for number in clocked(run.steps(slowly(range(80)), total=80), 80):
            x = step(x)
            run.log(loss=x[0, 0])
            if number % 20 == 19:
                with run.band("evaluate"), Evaluation():
                    time.sleep(0.1)
                    run.log(accuracy=float(evaluate(x)))
        report(run, x[0, 0], flops=2 * 64**3)
    """,
    "block_until_ready in each step": """
        step = jax.jit(lambda x: x @ x)
        x = jnp.eye(1024)
        run = start()
        for _ in clocked(run.steps(range(20))):
            with Work():
                x = step(x)
                x.block_until_ready()
            time.sleep(0.003)
            run.log(loss=x[0, 0])
        report(run, x[0, 0], flops=2 * 1024**3)
    """,
    "a train and an eval call a turn, no annotation": """
        from IPython.core.interactiveshell import InteractiveShell

        step, evaluate = jax.jit(lambda x: x @ x), jax.jit(lambda x: x.sum())
        x = jnp.eye(256)
        shell = InteractiveShell.instance(user_ns=globals())
        agent.tracker.is_shown = True
        agent.cells.attach(shell)
        jax.block_until_ready((step(x), evaluate(x)))
        cell = (
            "for _ in clocked(range(60)):\\n"
            "    x = step(x)\\n"
            "    score = float(evaluate(x))\\n"
            "    time.sleep(0.004)"
        )
        shell.run_cell(cell).raise_error()
        found = agent.tracker.last_run
        agent.tracker.end_run(found, "finished")
        agent.settle(5)
        report_of(found)
    """,
    "the last of a sweep of 20 runs": """
        for number in range(20):
            turns.clear(), waited.clear()
            step = jax.jit(lambda x: x @ x)
            x = jnp.full((64, 64), 1 / 64)
            run = start()
            for _ in clocked(run.steps(slowly(range(20), 0.002))):
                x = step(x)
                run.log(loss=x[0, 0] * number)
        report(run, x[0, 0] * number)
    """,
}

TORCH = """
import torch


class Data(torch.utils.data.Dataset):
    # A sample is a batch; its time is the loader's.
    def __len__(self):
        return 60

    def __getitem__(self, index):
        began = time.perf_counter()
        time.sleep(0.004)
        waited.append(time.perf_counter() - began)
        return {"x": torch.full((16,), index / 60), "labels": torch.ones(4)}


class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(16, 4)

    def forward(self, x, labels):
        return {"loss": (self.line(x) - labels).pow(2).mean(), "logits": self.line(x)}


torch.manual_seed(0)
"""
#: For the environment torch-xla.
TORCH_LOOPS = {
    "torch_xla with a DataLoader": """
        import torch_xla

        device = torch_xla.device()
        model = Line().to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = start()
        for batch in clocked(run.steps(torch.utils.data.DataLoader(Data()))):
            loss = model(**{name: value.to(device) for name, value in batch.items()})["loss"]
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            torch_xla.sync()
            run.log(loss=loss.detach())
        report(run, loss.item())
    """,
    "accelerate, accumulation of 4": """
        from accelerate import Accelerator

        accelerator = Accelerator(gradient_accumulation_steps=4, cpu=True)
        model = Line()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(Data()))
        run = start()
        for batch in clocked(run.steps(loader)):
            with accelerator.accumulate(model):
                loss = model(**batch)["loss"]
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            run.log(loss=loss.detach())
        # torch_xla's loader loads ahead on its own threads: the loop waits for less time than loading takes.
        waited.clear()
        report(run, loss.item())
    """,
    "Hugging Face's Trainer, an evaluation each 10 steps": """
        import tempfile, threading, torch_xla, transformers
        from torch_xla import runtime
        from torch_xla.utils.keyd_queue import Queue
        from tpulab.hf import Callback

        runtime.world_size()
        begun, queued, get = [], [], Queue.get

        def compilations():
            return (torch_xla._XLAC._xla_metric_data("CompileTime") or [0])[0]

        def clocked_get(queue):
            # Loaders read ahead on their own threads: the loop waits for the queue.
            began = time.perf_counter()
            try:
                return get(queue)
            finally:
                if threading.current_thread() is threading.main_thread() and not Evaluation.runs:
                    queued.append((began, time.perf_counter() - began))

        Queue.get = clocked_get

        class Slow(Data):
            # An epoch begins with a wait for the loader's first eight batches.
            def __len__(self):
                return 20

            def __getitem__(self, index):
                time.sleep(0.04)
                return super().__getitem__(index)

        class Clock(transformers.TrainerCallback):
            def on_train_begin(self, *_, **__):
                compiled.append(compilations())

            def on_step_begin(self, *_, **__):
                begun.append(time.perf_counter())

            def on_train_end(self, *_, **__):
                begun.append(time.perf_counter())

        class Trainer(transformers.Trainer):
            def evaluate(self, *given, **named):
                with Evaluation():
                    return super().evaluate(*given, **named)

        losses = []

        class Last(transformers.TrainerCallback):
            def on_log(self, *_, logs=None, **__):
                losses.extend([logs["loss"]] if "loss" in logs else [])

        arguments = transformers.TrainingArguments(
            output_dir=tempfile.mkdtemp(), per_device_train_batch_size=1, max_steps=40, logging_steps=1,
            optim="adamw_torch", eval_strategy="steps", eval_steps=10, save_strategy="no", report_to=[],
            disable_tqdm=True,
        )
        checks = [{"x": torch.ones(16), "labels": torch.ones(4)} for _ in range(40)]
        callback = Callback("loop", log=False)
        trainer = Trainer(
            model=Line(), args=arguments, train_dataset=Slow(), eval_dataset=checks,
            callbacks=[Clock(), callback, Last()],
        )
        trainer.train()
        compiled.append(compilations())
        turns.extend(np.diff(begun))
        waited[:] = [
            sum(lasted for began, lasted in queued if one <= began < other)
            for one, other in zip(begun, begun[1:])
        ]
        report(callback.run, losses[-1])
    """,
}


def measure(name: str) -> dict[str, dict[str, Any]]:
    """The reported figures of a loop, and the true ones."""
    loop = textwrap.dedent({**LOOPS, **TORCH_LOOPS}[name])
    program = HEAD + (TORCH if name in TORCH_LOOPS else "") + loop
    env = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(DEVICES),
        "TPULAB_TEXT": "0",
        "PJRT_DEVICE": "CPU",
        "PYTHONPATH": str(ROOT / "kernel-agent" / "src"),
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={key: value for key, value in env.items() if key != "TPULAB_AGENT_SOCKET"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


COLUMNS = {"steps": "steps", "ms": "ms per step", "input": "ms of input", "evaluations": "ms of evaluations"}
COLUMNS |= {"goodput": "ms of goodput", "left": "s left at half"}
COLUMNS |= {"compilations": "compilations", "flops": "operations a step", "loss": "last value"}
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def table(before: str) -> str:
    """Reported / true, for each loop; for loops whose packages are missing, the rows of the previous page."""

    def cell(found: dict[str, Any], column: str) -> str:
        reported, true = found["reported"][column], found["true"][column]
        return "" if true is None else "not known" if reported is None else f"{reported:,.4g} / {true:,.4g}"

    head = ["loop", *COLUMNS.values()]
    rows = [head, ["---"] * len(head)]
    cells = [
        [text.strip() for text in row.strip("|").split("|")] for row in before.splitlines() if row[:1] == "|"
    ]
    columns = next((row for row in cells if row[1] == head[1]), head)
    known = {row[0]: dict(zip(columns, row, strict=False)) for row in cells}
    for names, package in ((LOOPS, "grain"), (TORCH_LOOPS, "torch")):
        for name in names:
            if importlib.util.find_spec(package) is not None:
                found = measure(name)
                rows.append([name, *(cell(found, column) for column in COLUMNS)])
            elif name in known:
                rows.append([known[name].get(column, "") for column in head])
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    rows[1] = ["-" * width for width in widths]
    padded = [[text.ljust(width) for text, width in zip(row, widths, strict=True)] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in padded)


if __name__ == "__main__":
    page = ROOT / "docs" / "step-clock.md"
    text = page.read_text()
    made = f"{BEGIN}\n\n{table(text)}\n\n{END}"
    page.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: made, text, flags=re.DOTALL))
