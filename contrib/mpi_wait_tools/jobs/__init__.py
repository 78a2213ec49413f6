"""Where the records of jobs are found."""
