"""Trains briefly without a bridge, and prints the three widgets as a saved notebook has them, as JSON."""

import json

import ipywidgets.embed
import jax
import jax.numpy as jnp

import tpulab
from tpulab.agent.process_agent import current_agent
from tpulab.widgets.publisher import publisher


@jax.jit
def train_step(w, rate):
    return w - rate * w, jnp.mean(w**2)


publisher()
rate = tpulab.hyper(1e-2, min=1e-6, max=1e-1, scale="log")
run = tpulab.run("saved", hyperparameters={"rate": rate}, log=False)
w = jnp.ones(64)
for _ in run.steps(range(40)):
    w, loss = train_step(w, run.hyper.rate)
    run.log(loss=loss)
current_agent().settle(60.0)
shown = [tpulab.DeviceMonitor(), tpulab.StepTimeline(), tpulab.TrainingControls()]
print("SAVED " + json.dumps(ipywidgets.embed.embed_data(views=shown)))
