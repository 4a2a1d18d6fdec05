"""The README and the pages of ``docs``, played as a reader would: written, run, compared.

blocks      the fenced blocks of a page, and the markers above them
transcript  what a command printed, against what the page says it prints
player      a folder, a Redis and a model, in which a page's blocks are done in their order
commands    which commands and options there are
"""
