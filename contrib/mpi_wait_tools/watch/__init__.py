"""mpi-wait report --watch: shows a running job to its owner. Reads the stats segments on each node, and draws all nodes
on one screen. In this package a look is one such reading.
"""
