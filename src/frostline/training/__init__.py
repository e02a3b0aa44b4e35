"""Training: one model, one loop, checkpoints, the freeze audit, the execution of one plan."""
