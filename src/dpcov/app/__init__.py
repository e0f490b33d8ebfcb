"""Local page in the browser that leads from a table to a report.

The package uses the public names of dpcov and the helpers of the command line. It reads no cell:
the commands that it starts read the table, and they record the budget first.
"""
