"""The page that a run leaves: the answer first, then what it rests on."""

from frostline.report.page import write_page as write_page
