"""The commands of ``python -m carbonrouter_core``, one module a subject."""
