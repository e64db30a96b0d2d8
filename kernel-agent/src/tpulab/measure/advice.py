"""The adviser's messages about the figures of a run."""

from __future__ import annotations

from tpulab.figures.alerts import Rule
from tpulab.figures.slower import Slower
from tpulab.measure.runs import Run
from tpulab.runtimes.jax_internals import loaded_jax
from tpulab.telemetry.adviser import Adviser
from tpulab.telemetry.messages import AdviceKind, NonFinite

#: By the span that grew: the observation, and the remedy.
_GREW = {
    "input": ("It waits {} longer for input.", "Check the data loader, its disk and its network."),
    "host": (
        "Python takes {} longer.",
        "Check what else the host CPU does, and lists that grow in the loop.",
    ),
    "device": (
        "{} of it is device time.",
        "Check whether another process uses the device; a trace shows which operations grew.",
    ),
    "gap": ("The device is idle {} longer.", "Check what the loop waits for between its steps."),
    "compile": ("It compiles {} longer.", "See the compilations of the run."),
}


def advise_on_run(
    adviser: Adviser, run: Run, kind: AdviceKind, message: str, remedy: str, about: str = ""
) -> None:
    """Once for each run, kind and `about`."""
    adviser.report(
        kind, message, remedy, about=f"{run.id} {about}".rstrip(), location=run.location, run=run.id
    )


def advise_on_non_finite(adviser: Adviser, run: Run, step: int, found: dict[str, NonFinite]) -> None:
    """Once for each metric of a run; metrics of one step together, as one causes the others."""
    new = {name: text for name, text in found.items() if name not in run.non_finite}
    run.non_finite.update(new)
    if not new:
        return
    what = " and ".join(f"`{name}` {text}" for name, text in list(new.items())[:3])
    more = f" and {len(new) - 3} more" if len(new) > 3 else ""
    remedy = "Check the data of this step, lower the learning rate, or clip the gradients."
    if loaded_jax() is not None:
        remedy += ' `jax.config.update("jax_debug_nans", True)` raises at the operation that makes a NaN.'
    message = f"At step {step}, {what.replace('` ', '` became ', 1)}{more}."
    advise_on_run(adviser, run, "non-finite-metric", message, remedy, next(iter(new)))


def advise_on_freed(adviser: Adviser, run: Run) -> None:
    """A metric whose array was freed before it could be read has no value: neither an older one nor 0."""
    if not run.freed:
        return
    name, count = max(run.freed.items(), key=lambda item: item[1])
    others = f" (and {len(run.freed) - 1} more)" if len(run.freed) > 1 else ""
    advise_on_run(
        adviser,
        run,
        "freed-metric",
        f"`{name}`{others} was donated or deleted before it could be read in {count} of "
        f"{run.recorded} steps of {run.name}.",
        f"Log a copy to see it: `run.log({name}={name} + 0)`.",
    )


def advise_on_unusable(
    adviser: Adviser,
    run: Run,
    name: str,
    why: str,
    remedy: str = "Log numbers, text, figures, pictures (`tpulab.image`) or sound (`tpulab.audio`).",
) -> None:
    """Once for each name of a run."""
    message = f"`{name[:60]}` of {run.name} is left out: {why}."
    advise_on_run(adviser, run, "unusable-value", message, remedy, name[:60])


def advise_on_alert(adviser: Adviser, run: Run, step: int, values: dict[str, float], rule: Rule) -> None:
    """Once for each run and rule."""
    since = run.alerts.get(rule.text)
    if since is not None and since < 0:
        return
    since = rule.since(values, step, since)
    if since is None:
        run.alerts.pop(rule.text, None)
        return
    run.alerts[rule.text] = since
    if step - since + 1 < rule.steps or rule.name not in values:
        return
    run.alerts[rule.text] = -1
    advise_on_run(
        adviser,
        run,
        "alert",
        f"At step {step}, `{rule.name}` is {values[rule.name]:.4g}.",
        f"Your rule: `{rule.text}`.",
        rule.text,
    )


def advise_on_slower(adviser: Adviser, run: Run, found: Slower) -> None:
    span, longer_ms = max(found.longer_ms.items(), key=lambda item: item[1])
    seen, remedy = _GREW[span]
    if not found.device_known and span == "host":
        seen = "Python or the device takes {} longer; device time is unknown."
    advise_on_run(
        adviser,
        run,
        "slower",
        f"{run.name} became slower by itself: {found.now_ms:.3g} ms per step instead of "
        f"{found.before_ms:.3g} ms, over a minute, and nothing was compiled. "
        + seen.format(f"{longer_ms:.2g} ms"),
        remedy,
        str(run.recorded),
    )
