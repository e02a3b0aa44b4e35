"""One file per benchmark; every preset registers itself in `frostline.tasks.preset.PRESETS`."""
