"""The kernel that loses no output, started by `python -m tpulab.launcher`; it starts the agent too."""
