"""Reports: one page for people to look at, and figures for papers, from any folder of ours."""
