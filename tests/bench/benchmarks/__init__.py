"""The benchmarks, one module each: cells to launch, targets to judge, and a picture of the results."""
