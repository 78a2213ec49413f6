#include "spank/plugin/notice.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const hindrances[] = {
        [INJECT_NO_HINDRANCE] = NULL,
        [INJECT_STATIC] = "the program is linked statically and runs without it; link it dynamically",
        [INJECT_SETUID] = "the program is setuid or setgid and runs without it; start one that is not",
        [INJECT_HIDDEN] =
                "the library " MPIWAIT_LIBRARY " is not found in the container, and the program runs without it; "
                "ask for its directory to be mounted there",
};

bool notice_make(const struct policy_use *use, enum inject_hindrance hindrance, char ret_line[NOTICE_MAX])
{
	if (strcmp(use->by, "job") != 0 && strcmp(use->by, "step") != 0)
		return false;
	if (hindrances[hindrance])
		snprintf(ret_line, NOTICE_MAX, "mpi-wait: policy '%s': %s\n", use->asked, hindrances[hindrance]);
	else if (use->why[0])
		snprintf(ret_line, NOTICE_MAX,
		         "mpi-wait: policy '%s' is not possible on this node (%s), '%s' is used; "
		         "'srun --mpi-wait-policy=help' on a node says what is possible there\n",
		         use->asked, use->why, use->used);
	return hindrances[hindrance] || use->why[0];
}

void notice_give(const struct policy_use *use, enum inject_hindrance hindrance)
{
	char line[NOTICE_MAX];

	if (notice_make(use, hindrance, line))
		dprintf(STDERR_FILENO, "%s", line);
}
