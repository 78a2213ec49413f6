#include "spank/record/parts/csv_outcome.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static const char *const names[CSV_OUTCOMES] = {
        [CSV_NONE] = "none",
        [CSV_WRITTEN] = "written",
        [CSV_NO_DIRECTORY] = "no such directory",
        [CSV_NOT_ALLOWED] = "no permission to write there",
        [CSV_NO_SPACE] = "no space left",
        [CSV_TOO_LATE] = "not done within ten seconds",
        [CSV_KILLED] = "killed",
        [CSV_FAILED] = "failed, see the node's log",
};

static const struct {
	int result;
	enum csv_outcome outcome;
} results[] = {
        {0, CSV_WRITTEN},           {-ENOENT, CSV_NO_DIRECTORY}, {-ENOTDIR, CSV_NO_DIRECTORY},
        {-EACCES, CSV_NOT_ALLOWED}, {-EPERM, CSV_NOT_ALLOWED},   {-EROFS, CSV_NOT_ALLOWED},
        {-ENOSPC, CSV_NO_SPACE},    {-EDQUOT, CSV_NO_SPACE},     {-ETIMEDOUT, CSV_TOO_LATE},
        {-EINTR, CSV_KILLED},
};

enum csv_outcome csv_outcome_of(int result)
{
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		if (results[i].result == result)
			return results[i].outcome;
	return CSV_FAILED;
}

const char *csv_outcome_name(enum csv_outcome outcome)
{
	return names[outcome];
}

enum csv_outcome csv_outcome_find(const char *name)
{
	for (int i = CSV_WRITTEN; i < CSV_OUTCOMES; i++)
		if (strcmp(names[i], name) == 0)
			return (enum csv_outcome)i;
	return CSV_FAILED;
}
