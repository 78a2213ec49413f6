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

void notice_give(const struct policy_use *use, enum inject_hindrance hindrance)
{
	if (strcmp(use->by, "job") != 0 && strcmp(use->by, "step") != 0)
		return;
	if (hindrances[hindrance])
		dprintf(STDERR_FILENO, "mpi-wait: policy '%s': %s\n", use->asked, hindrances[hindrance]);
	else if (use->why[0])
		dprintf(STDERR_FILENO,
		        "mpi-wait: policy '%s' is not possible here (%s), '%s' is used; 'srun --mpi-wait-policy=help' "
		        "says what is possible on this host\n",
		        use->asked, use->why, use->used);
}
