"""Words that app, report and command line share. Functions take plain values and return text.

:mod:`.figures` writes numbers with their units, :mod:`.answer` says who emits less and how sure
that is, :mod:`.notes` says what figures rest on, :mod:`.names` says which name was meant.
"""
