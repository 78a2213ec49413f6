"""Finds the records of jobs, in sacct, in the spool and in files."""
