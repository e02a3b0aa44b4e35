"""Reports: an HTML page and figures for papers, from any result folder."""
