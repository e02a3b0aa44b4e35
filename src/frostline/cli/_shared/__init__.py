"""What commands share: groups of options, the terminal, logs."""
