"""The command line: one module for each command.

:mod:`.main` has the list of commands. :mod:`.options` has the options that several commands
share, :mod:`.output` what several commands print.
"""
