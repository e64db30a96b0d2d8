"""Parts of PyTorch training loops on a compiled device: learning rates that do not recompile, optimizer
state, checkpoints, and snapshots from which a run resumes bit for bit."""

from tpulab_recipes.common.errors import CheckpointError
from tpulab_recipes.torch_training.accumulation import backward_in_parts
from tpulab_recipes.torch_training.adamw import make_adamw
from tpulab_recipes.torch_training.checkpoint import load_checkpoint, save_checkpoint
from tpulab_recipes.torch_training.compiled_step import compiled_step
from tpulab_recipes.torch_training.flat_adamw import load_flat_adamw, make_flat_adamw
from tpulab_recipes.torch_training.learning_rate import (
    cosine,
    set_learning_rate,
    use_tensor_learning_rate,
    warmup_cosine,
)
from tpulab_recipes.torch_training.lora import add_lora, core_of, load_saved_weights, saved_weights
from tpulab_recipes.torch_training.optimizer_state import create_optimizer_state, share_step_counter
from tpulab_recipes.torch_training.resumable import Resumable, average_of
from tpulab_recipes.torch_training.scanned_layers import ScannedLayers
from tpulab_recipes.torch_training.snapshot import refuse_changes, restore, snapshot

__all__ = [
    "CheckpointError",
    "Resumable",
    "ScannedLayers",
    "add_lora",
    "average_of",
    "backward_in_parts",
    "compiled_step",
    "core_of",
    "cosine",
    "create_optimizer_state",
    "load_checkpoint",
    "load_flat_adamw",
    "load_saved_weights",
    "make_adamw",
    "make_flat_adamw",
    "refuse_changes",
    "restore",
    "save_checkpoint",
    "saved_weights",
    "set_learning_rate",
    "share_step_counter",
    "snapshot",
    "use_tensor_learning_rate",
    "warmup_cosine",
]
