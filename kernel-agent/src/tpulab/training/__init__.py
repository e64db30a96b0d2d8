"""`tpulab.run`: a run that can be steered. Knows of no socket."""
