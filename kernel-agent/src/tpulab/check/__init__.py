"""Reports whether a notebook, a script or a step fits TPUs that are not attached, and its cost there."""
