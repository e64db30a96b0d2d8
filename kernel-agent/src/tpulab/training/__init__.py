"""`tpulab.run`: a run that can be steered. Independent of sockets."""
