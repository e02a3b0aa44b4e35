"""Plans: strategies that propose layers, methods that train them, plans in words, learning rates."""
