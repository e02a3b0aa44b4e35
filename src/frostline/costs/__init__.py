"""What plans cost: parameters, FLOPs, memory, latency and seconds on this machine."""
