"""The tables of the CSV bundle, a module each, column by column.

Energy comes twice: ``it_energy_kwh`` at the servers, and ``energy_kwh`` drawn by the facility,
which is that times PUE. Carbon is the facility's energy times the carbon intensity in the same
row. A row that sums up several turns has their energy-weighted mean intensity.
"""
