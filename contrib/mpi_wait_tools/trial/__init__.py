"""mpi-wait try: an experiment that measures, on the user's own machine, what each policy does to a program."""
