"""`python -m frostline` is `frostline`."""

from __future__ import annotations

from frostline.cli import main

if __name__ == "__main__":  # processes of a study import this file again
    main()
