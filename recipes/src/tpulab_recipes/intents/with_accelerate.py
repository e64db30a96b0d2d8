"""The same fine-tune by Hugging Face's Accelerate, which finds the device by itself; the steps are those of a
run, which a page shows and steers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tpulab_recipes import runtime
from tpulab_recipes.intents.config import Config
from tpulab_recipes.intents.data import Encoded, Utterances, encode
from tpulab_recipes.intents.trainer import Evaluation, make_model, prepared_mask
from tpulab_recipes.torch_training import create_optimizer_state


@dataclass(frozen=True)
class Accelerated:
    """`losses`: one for each step. `device_kind`: what Accelerate calls the way it runs, such as `XLA`."""

    device_kind: str
    losses: list[float]
    evaluation: Evaluation


def train_with_accelerate(
    config: Config, utterances: Utterances, tokenizer: Any, length: int, run: Any
) -> Accelerated:
    """Trains and evaluates with Accelerate's wrappers.

    Args:
        config: its `learning_rate` holds for all steps, without warm-up and decay, until the run changes it.
        run: of `tpulab.run`, with the hyperparameter `learning_rate`. A stop ends the training after the
            running step; what was learned by then is evaluated.
    """
    from accelerate import Accelerator
    from accelerate.utils import set_seed

    backend = runtime.current()
    accelerator = Accelerator()
    set_seed(config.seed)
    train, test = encode(utterances.train, tokenizer, length), encode(utterances.test, tokenizer, length)
    model = backend.prepare(make_model(config, utterances.names, len(tokenizer), length))  # type: ignore[attr-defined]
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
    )
    model, optimizer, train_loader, test_loader = accelerator.prepare(
        model, optimizer, _loader(train, config, shuffle=True), _loader(test, config, shuffle=False)
    )
    # Only now that the parameters are on the device, where a changing rate must be a tensor.
    run.apply_to(optimizer)
    # As without Accelerate: AdamW would otherwise create its state in step 1.
    create_optimizer_state(optimizer.optimizer)
    losses = []
    model.train()
    for _ in range(config.epochs):
        # Accelerate gives each device of one program the whole batch.
        for ids, mask, labels in run.steps(map(backend.shard_batch, train_loader)):
            loss = model(input_ids=ids, attention_mask=prepared_mask(mask), labels=labels).loss
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
            run.log(loss=loss.detach())
        if run.stopped:
            break
    run.finish()
    model.eval()
    rows = []
    for ids, mask, labels in test_loader:
        with torch.no_grad():
            logits = model(input_ids=ids, attention_mask=prepared_mask(mask)).logits
        # Several processes may see a row twice, to fill the last batch; this drops the second one.
        predicted, _ = accelerator.gather_for_metrics((logits.argmax(dim=-1), labels))
        rows.append(predicted.cpu().numpy())
    evaluation = Evaluation(np.concatenate(rows)[: len(test)].astype(np.int64), test.labels)
    return Accelerated(accelerator.distributed_type.value, [float(loss) for loss in losses], evaluation)


def _loader(data: Encoded, config: Config, *, shuffle: bool) -> Any:
    tensors = (
        torch.from_numpy(data.ids).long(),
        torch.from_numpy(data.mask).long(),
        torch.from_numpy(data.labels).long(),
    )
    dataset = torch.utils.data.TensorDataset(*tensors)
    # A ragged last batch is another shape: dropped in training. In the test it is compiled once more.
    return torch.utils.data.DataLoader(dataset, config.batch_size, shuffle=shuffle, drop_last=shuffle)
