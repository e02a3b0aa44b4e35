"""Files and folders: atomic writes, output folders, checksums, arrays on disk, the demo's model and data."""
