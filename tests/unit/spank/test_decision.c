/* The policy that holds: the user's word, the program's, the site's default; and the choices that ranks still have. */
#include "spank/policy/decision.h"

#include <stdlib.h>
#include <unistd.h>

#include "preload/process/config.h"
#include "tests/lib/check.h"

#define PROGRAMS                                                                                        \
	"{\"v\": 1, \"programs\": [{\"names\": [\"wrf.exe\"], \"policy\": \"nap,slowdown=2\"},"         \
	"{\"names\": [\"lmp*\"], \"policy\": \"off\"}, {\"names\": [\"cp2k\"], \"policy\": \"yield\"}," \
	"{\"names\": [\"run*\"], \"policy\": \"profile\"}]}"

static char path[] = "/tmp/decision-XXXXXX";

static struct site site_of(const char *default_policy, const char *allow, bool enforce)
{
	struct site site = {.enforce = enforce};

	strcpy(site.default_policy, default_policy);
	strcpy(site.allow, allow);
	strcpy(site.programs, path);
	strcpy(site.policies, MPIWAIT_POLICIES); /* the shipped ones of a built tree are not installed yet */
	return site;
}

static const struct {
	const char *what, *default_policy, *allow;
	bool enforce;
	const char *option, *environment, *job, *program;
	const char *asked, *by; /* NULL: no policy holds, and nothing is loaded */
	size_t names;           /* by which ranks may choose */
} cases[] = {
        {"the program's", "nap", "", false, NULL, NULL, NULL, "/opt/wrf.exe", "nap", "program", 0},
        {"its off needs no record of a job without policy", "off", "", false, NULL, NULL, NULL, "lmp", "off", "program",
         1},
        {"its off is noted under another default", "nap", "", false, NULL, NULL, NULL, "lmp", "off", "program", 1},
        {"a script's row, and those before it", "nap", "", false, NULL, NULL, NULL, "run.sh", "profile", "program", 3},
        {"no row: the ranks choose", "nap", "", false, NULL, NULL, NULL, "other", "nap", "site", 4},
        {"no row under off: the ranks choose", "off", "", false, NULL, NULL, NULL, "other", "off", "site", 4},
        {"no program: the ranks choose", "yield", "", false, NULL, NULL, NULL, NULL, "yield", "site", 4},
        {"the option wins", "nap", "", false, "yield", NULL, NULL, "wrf.exe", "yield", "step", 0},
        {"the environment wins", "nap", "", false, NULL, "yield", NULL, "wrf.exe", "yield", "step", 0},
        {"the job's words win", "nap", "", false, NULL, NULL, "yield", "wrf.exe", "yield", "job", 0},
        {"the user's off wins", "off", "", false, "off", NULL, NULL, "wrf.exe", NULL, NULL, 0},
        {"a wrong word counts for nothing", "nap", "", false, "dooze", NULL, NULL, "wrf.exe", "nap", "program", 0},
        {"what is not allowed to users is allowed to the site", "nap", "nap", false, NULL, NULL, NULL, "cp2k", "yield",
         "program", 2},
        {"users may not have it", "nap", "nap", false, "yield", NULL, NULL, "wrf.exe", "nap", "program", 0},
        {"enforce: the user's off counts for nothing", "nap", "", true, "off", NULL, NULL, "lmp", "off", "program", 1},
        {"enforce: nor another policy", "nap", "", true, "profile", NULL, NULL, "cp2k", "yield", "program", 2},
        {"enforce: what is allowed wins", "nap", "profile", true, "profile", NULL, NULL, "cp2k", "profile", "step", 0},
        {"enforce: so does the default", "nap", "", true, "nap", NULL, NULL, "cp2k", "nap", "step", 0},
        {"the kill switch stands above all", "off", "off", false, NULL, NULL, NULL, "wrf.exe", NULL, NULL, 0},
};

static void the_strongest_holds(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct site site = site_of(cases[i].default_policy, cases[i].allow, cases[i].enforce);
		char *words[] = {(char *)cases[i].program, NULL};
		struct decision_sources sources = {.option = cases[i].option,
		                                   .environment = cases[i].environment,
		                                   .job = cases[i].job,
		                                   .by_program = true,
		                                   .word_count = cases[i].program != NULL,
		                                   .words = words};
		struct decision decision = {.text = ""};
		struct error error = {""};
		int holds = decision_make(&site, &sources, &decision, &error);

		EXPECT(holds == (cases[i].asked != NULL), "%s: %d %s", cases[i].what, holds, error.text);
		if (holds <= 0 || !cases[i].asked)
			continue;
		EXPECT(strcmp(decision.use.asked, cases[i].asked) == 0 && strcmp(decision.use.by, cases[i].by) == 0,
		       "%s: %s by %s", cases[i].what, decision.use.asked, decision.use.by);
		EXPECT((decision.choices ? decision.choices->programs.name_count : 0) == cases[i].names, "%s: %zu",
		       cases[i].what, decision.choices ? decision.choices->programs.name_count : 0);
		free(decision.choices);
	}
}

/* Returns whether a record is left of a step under this default without a rank, for a program. */
static bool is_noted(const char *default_policy, char *program)
{
	struct site site = site_of(default_policy, "", false);
	struct decision_sources sources = {.by_program = true, .word_count = 1, .words = &program};
	struct decision decision = {.is_unnoted = true};
	struct error error = {""};

	CHECK(decision_make(&site, &sources, &decision, &error) == 1);
	free(decision.choices);
	return !decision.is_unnoted;
}

static void the_rest_is_left_alone(void)
{
	struct site site = site_of("off", "", false);
	struct decision_sources prolog = {.option = NULL};
	struct decision decision;
	struct error error = {""};

	CHECK(decision_make(&site, &prolog, &decision, &error) == 0); /* a prolog knows no program */
	CHECK(is_noted("nap", "lmp") && is_noted("nap", "other") && !is_noted("off", "lmp") &&
	      !is_noted("off", "other"));
}

/* The library reads the choices as the plugin writes them; without a match the step's own policy holds. */
static void ranks_choose(void)
{
	static const struct {
		const char *program;
		uint32_t number, slowdown_ppm;
		bool off;
	} chosen[] = {{"wrf.exe", 1, 20000, false}, {"lmp_mpi", 2, 0, true}, {"other", 0, 0, true}, {"", 0, 0, true}};
	struct site site = site_of("off", "", false);
	struct decision_sources sources = {.by_program = true};
	struct decision decision;
	struct error error = {""};
	char flat[POLICY_FLAT_MAX], *choices, *text;
	struct config config;

	CHECK(decision_make(&site, &sources, &decision, &error) == 1 && decision.choices);
	CHECK(policy_flatten(&decision.policy, &decision.cpu, false, false, flat, sizeof(flat)) > 0);
	choices = choices_flatten(decision.choices, &decision.cpu, false);
	CHECK(choices && asprintf(&text, "%s;segment=210:1:2;task=7%s", flat, choices) > 0);
	for (size_t i = 0; i < sizeof(chosen) / sizeof(chosen[0]); i++) {
		CHECK(config_parse(text, chosen[i].program, &config) == 0);
		EXPECT(config.program == chosen[i].number && config.off == chosen[i].off, "%s: %u", chosen[i].program,
		       config.program);
		CHECK(config.segment_fd == 210 && config.task_pid == 7);
		CHECK(config.slowdown_ppm == chosen[i].slowdown_ppm);
	}
	CHECK(strcmp(decision.choices->choice[1].use.by, "program") == 0);
	free(choices);
	free(text);
	free(decision.choices);
}

static void write_file(const char *text)
{
	FILE *file = fopen(path, "w");

	CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* Decides for wrf.exe under the default nap. Returns the author, and the message in error. */
static const char *decide(struct error *error)
{
	struct site site = site_of("nap", "", false);
	char *words[] = {"wrf.exe", NULL};
	struct decision_sources sources = {.by_program = true, .word_count = 1, .words = words};
	static struct decision decision;

	CHECK(decision_make(&site, &sources, &decision, error) == 1 && !decision.choices);
	CHECK(strcmp(decision.use.used, "nap") == 0);
	return decision.use.by;
}

static void a_broken_file_counts_for_nothing(void)
{
	struct error error = {""};

	write_file("{\"v\": 1, \"programs\": [{\"names\": [\"wrf.exe\"], \"policy\": \"doze\"}]}");
	CHECK(strcmp(decide(&error), "site") == 0);
	CHECK_CONTAINS(error.text, "left out: policy 'doze' is unknown");
	error.text[0] = '\0';
	write_file("{\"v\": 1");
	CHECK(strcmp(decide(&error), "site") == 0);
	CHECK_CONTAINS(error.text, "left out: line 1");
	error.text[0] = '\0';
	CHECK(unlink(path) == 0 && strcmp(decide(&error), "site") == 0);
	CHECK_CONTAINS(error.text, "No such file");
}

int main(void)
{
	int file = mkstemp(path);

	CHECK(file >= 0 && close(file) == 0);
	write_file(PROGRAMS);
	the_strongest_holds();
	the_rest_is_left_alone();
	ranks_choose();
	a_broken_file_counts_for_nothing();
	return CHECK_RESULT;
}
