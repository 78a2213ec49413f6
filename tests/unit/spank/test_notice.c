/* The line for a user whose policy is not what runs: for whom, and in which words. */
#include "spank/plugin/notice.h"

#include "tests/lib/check.h"

static const struct {
	struct policy_use use;
	enum inject_hindrance hindrance;
	const char *line; /* NULL: none */
} cases[] = {
        {{"nap", "nap", "", "step"}, INJECT_NO_HINDRANCE, NULL},
        {{"umwait", "nap", "no waitpkg", "step"},
         INJECT_NO_HINDRANCE,
         "mpi-wait: policy 'umwait' is not possible on this node (no waitpkg), 'nap' is used; "
         "'srun --mpi-wait-policy=help' on a node says what is possible there\n"},
        {{"umwait", "nap", "no waitpkg", "job"},
         INJECT_NO_HINDRANCE,
         "mpi-wait: policy 'umwait' is not possible on this node"},
        {{"umwait", "nap", "no waitpkg", "program"}, INJECT_NO_HINDRANCE, NULL},
        {{"umwait", "nap", "no waitpkg", "site"}, INJECT_NO_HINDRANCE, NULL},
        {{"umwait", "nap", "no waitpkg", "site"}, INJECT_STATIC, NULL},
        {{"umwait", "nap", "no waitpkg", "step"},
         INJECT_STATIC,
         "mpi-wait: policy 'umwait': the program is linked statically and runs without it; link it dynamically\n"},
        {{"nap", "nap", "", "job"},
         INJECT_SETUID,
         "mpi-wait: policy 'nap': the program is setuid or setgid and runs without it; start one that is not\n"},
        {{"nap", "nap", "", "job"},
         INJECT_HIDDEN,
         "is not found in the container, and the program runs without it; ask"},
};

int main(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char line[NOTICE_MAX] = "";
		bool made = notice_make(&cases[i].use, cases[i].hindrance, line);

		EXPECT(made == (cases[i].line != NULL), "%zu: %s", i, line);
		CHECK_CONTAINS(line, cases[i].line ? cases[i].line : "");
		CHECK(!made || (strchr(line, '\n') && !strchr(line, '\n')[1]));
	}
	return CHECK_RESULT;
}
