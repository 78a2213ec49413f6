"""A running job as its owner sees it: on each node a look at the stats segments, and one screen of all nodes."""
