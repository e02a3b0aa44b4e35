"""The public verbs: they resolve arguments and call the packages above."""

from frostline.report import notebook as notebook  # registers how notebooks show what the verbs return
