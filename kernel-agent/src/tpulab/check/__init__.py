"""Says of a notebook, a script or a step whether it fits TPUs that are not here, and what it costs there."""
