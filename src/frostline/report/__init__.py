"""Reports: one page for people to look at, and figures for papers, from any folder of ours."""

from frostline.report.pages import write_report as write_report
