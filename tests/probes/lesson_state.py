"""Runs inside the kernel after the lesson: saves arrays for the NumPy oracle and reports counts.

`ARRAYS_PATH` is replaced by the path of the file to write; the other names are the lesson's own.
"""
# ruff: noqa: F821


def _report_lesson_state() -> None:
    import json
    from collections import Counter

    compiled = Counter(_compile_log.names)  # first: the calls below compile as well
    sizes = {"train_step": train_step._cache_size(), "predict": predict._cache_size()}
    report = {"compiled": compiled, "cacheSizes": sizes, "devices": len(jax.devices())}

    initial = init_lenet(jax.random.key(seed))
    first = np.random.default_rng(seed)
    for shape in ((20, 16, 50), (33, 16, 3), (1, 1, 32, 32)):
        first.standard_normal(shape, dtype=np.float32)
    batch_images, batch_labels = next(ragged_batches(first))
    gradient = jax.grad(loss_of)(initial, batch_images, batch_labels)
    trees = {"initial": initial, "trained": params, "gradient": gradient}
    saved = {
        f"{tree}/{name}/{part}": value
        for tree, layers in trees.items()
        for name, layer in layers.items()
        for part, value in layer.items()
    }
    np.savez(ARRAYS_PATH, **saved)
    print(json.dumps(report))


_report_lesson_state()
