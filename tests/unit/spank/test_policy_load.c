/* Directories of policies as a site may leave them: what is none is not seen, what cannot be read is said. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spank/policy/policy.h"
#include "tests/lib/check.h"

#define POLICY "{\"version\":1,\"name\":\"%s\",\"summary\":\"s\",\"rungs\":[]}"

static char directory[] = "/tmp/policies-XXXXXX";

static void put(const char *name, const char *content)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	CHECK(file && fputs(content, file) >= 0 && fclose(file) == 0);
}

static void put_policy(const char *name)
{
	char file[64], content[256];

	snprintf(file, sizeof(file), "%s.json", name);
	snprintf(content, sizeof(content), POLICY, name);
	put(file, content);
}

static void drop(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	CHECK(unlink(path) == 0);
}

/* How many policies there are, and what is said of the rest. */
static size_t load(struct error *error)
{
	struct policy_set *set = calloc(1, sizeof(*set));
	size_t count;

	error->text[0] = '\0';
	policy_load("/nonexistent", directory, NULL, set, error);
	count = set->count;
	free(set);
	return count;
}

static void sees_only_policies(void)
{
	static const char *const others[] = {"policy.schema.json",
	                                     ".hidden.json",
	                                     ".json",
	                                     "README",
	                                     "nap.json~",
	                                     "a-name-that-is-longer-than-any-policy-may-be.json"};
	struct error error;

	put_policy("good");
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		put(others[i], "{");
	CHECK(load(&error) == 1 && error.text[0] == '\0');
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		drop(others[i]);
}

static void says_what_it_cannot_read(void)
{
	const char *refusal = "left out: not a readable regular file under 65536 bytes";
	struct error error;
	char path[256], *large = calloc(1, 70001);

	put("bad.json", "{\"version\":");
	CHECK(load(&error) == 1);
	CHECK_CONTAINS(error.text, "bad.json' left out: ");
	drop("bad.json");
	memset(large, ' ', 70000);
	put("large.json", large);
	free(large);
	CHECK(load(&error) == 1);
	CHECK_CONTAINS(error.text, refusal);
	drop("large.json");
	snprintf(path, sizeof(path), "%s/pipe.json", directory);
	CHECK(mkfifo(path, 0600) == 0 && load(&error) == 1);
	CHECK_CONTAINS(error.text, refusal);
	drop("pipe.json");
	snprintf(path, sizeof(path), "%s/link.json", directory);
	CHECK(symlink("good.json", path) == 0 && load(&error) == 1);
	CHECK_CONTAINS(error.text, refusal);
	drop("link.json");
}

static bool is_left_out(const char *own, const char *shipped, const char *name, struct error *error)
{
	struct policy_set *set = calloc(1, sizeof(*set));

	error->text[0] = '\0';
	policy_load(own, shipped, name, set, error);
	free(set);
	return error->text[0] != '\0';
}

/* Only of the file that is named, and not where an earlier directory has a good one. */
static void says_which_policy_is_left_out(void)
{
	struct error error;

	put("nap.json", "{");
	put("mine.json", "{\"version\":1}");
	CHECK(!is_left_out(MPIWAIT_POLICIES, directory, "nap", &error));
	CHECK(!is_left_out(directory, MPIWAIT_POLICIES, "good", &error));
	CHECK(!is_left_out(directory, MPIWAIT_POLICIES, "../mine", &error));
	CHECK(is_left_out(directory, MPIWAIT_POLICIES, "nap", &error));
	CHECK_CONTAINS(error.text, "nap.json' left out: line 1: ");
	CHECK(is_left_out(MPIWAIT_POLICIES, directory, "mine", &error));
	CHECK_CONTAINS(error.text, "mine.json' left out: 'name' is missing");
	CHECK(is_left_out("/proc/self/exe", directory, "good", &error));
	CHECK_CONTAINS(error.text, "the policies in '/proc/self/exe' are left out: Not a directory");
	drop("nap.json");
	drop("mine.json");
}

static void takes_no_more_than_it_has_room_for(void)
{
	struct error error;
	char name[32];

	for (int i = 0; i < POLICY_COUNT_MAX; i++) {
		snprintf(name, sizeof(name), "more-%d", i);
		put_policy(name);
	}
	CHECK(load(&error) == POLICY_COUNT_MAX);
	CHECK_CONTAINS(error.text, "left out: more than 64 policies");
	for (int i = 0; i < POLICY_COUNT_MAX; i++) {
		snprintf(name, sizeof(name), "more-%d.json", i);
		drop(name);
	}
}

int main(void)
{
	CHECK(mkdtemp(directory) != NULL);
	sees_only_policies();
	says_what_it_cannot_read();
	says_which_policy_is_left_out();
	takes_no_more_than_it_has_room_for();
	drop("good.json");
	CHECK(rmdir(directory) == 0);
	return CHECK_RESULT;
}
