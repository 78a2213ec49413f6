/*
 * What became of the files of csv= on one node, for the step's file, the record and the log. Pure.
 */
#ifndef MPIWAIT_SPANK_RECORD_PARTS_CSV_OUTCOME_H
#define MPIWAIT_SPANK_RECORD_PARTS_CSV_OUTCOME_H

enum csv_outcome {
	CSV_NONE, /* not asked for, or no rank to write of */
	CSV_WRITTEN,
	CSV_NO_DIRECTORY,
	CSV_NOT_ALLOWED,
	CSV_NO_SPACE,
	CSV_TOO_LATE,
	CSV_KILLED,
	CSV_FAILED, /* anything else */
	CSV_OUTCOMES
};

/* Of run_as_user's result. */
enum csv_outcome csv_outcome_of(int result);

/* In words that records and reports have: "no such directory". */
const char *csv_outcome_name(enum csv_outcome outcome);

/* The outcome of that name, CSV_FAILED for a name of another release. */
enum csv_outcome csv_outcome_find(const char *name);

#endif
