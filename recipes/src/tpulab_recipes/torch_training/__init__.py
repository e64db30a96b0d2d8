"""What training loops in PyTorch share on a compiled device: learning rates that do not recompile, optimizer
state."""

from tpulab_recipes.torch_training.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from tpulab_recipes.torch_training.learning_rate import set_learning_rate, use_tensor_learning_rate
from tpulab_recipes.torch_training.optimizer_state import create_optimizer_state

__all__ = [
    "CheckpointError",
    "create_optimizer_state",
    "load_checkpoint",
    "save_checkpoint",
    "set_learning_rate",
    "use_tensor_learning_rate",
]
