"""Words that app, report and command line share.

:mod:`.figures` writes numbers with their units, :mod:`.names` says which name was meant.
"""
