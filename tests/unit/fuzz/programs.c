/*
 * The site's file of policies by program, and on a line of its own before it a command line, whose words have '\t'
 * between them: what is accepted is offered to ranks in a form that the program's half reads.
 */
#include "tests/unit/fuzz/fuzz.h"

#include "preload/process/config.h"
#include "spank/base/cleanup.h"
#include "spank/policy/choices.h"
#include "spank/policy/wrappers.h"

#define WORDS_MAX 64

static void offer_check(const char *program, struct choices *choices)
{
	static const struct policy step = {.inject = true};
	struct cpu cpu = {.waitpkg = true, .mwaitx = true, .tsc_khz = 2000000, .umwait_max_ns = 100000};
	cleanup_free char *offer = choices_flatten(choices, &cpu, true), *text = NULL;
	char flat[POLICY_FLAT_MAX];
	struct config config;
	int index = programs_find(&choices->programs, program);

	FUZZ_CHECK(policy_flatten(&step, &cpu, true, false, flat, sizeof(flat)) > 0 && offer);
	FUZZ_CHECK(asprintf(&text, "%s%s", flat, offer) > 0 && config_parse(text, program, &config) == 0);
	FUZZ_CHECK(config.program == (index < 0 ? 0 : choices->programs.name[index].policy + 1));
}

static const char *command_read(char *line, const struct programs *programs, char buffer[WRAPPERS_TEXT_MAX])
{
	char *words[WORDS_MAX + 1] = {NULL};
	int count = 0;
	const char *program;

	while (count < WORDS_MAX && line && (words[count] = strsep(&line, "\t")))
		count++;
	program = wrappers_program(count, words, programs, buffer);
	return program ? wrappers_base_name(program) : "";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *line = fuzz_text(data, size);
	cleanup_free struct choices *choices = calloc(1, sizeof(*choices));
	char *text = strchr(line, '\n'), buffer[WRAPPERS_TEXT_MAX];
	struct error error = {""};

	FUZZ_CHECK(choices != NULL);
	if (!text)
		return 0;
	*text++ = '\0';
	if (programs_parse(text, strlen(text), &choices->programs, &error) < 0) {
		FUZZ_CHECK(error.text[0]);
		return 0;
	}
	FUZZ_CHECK(!error.text[0] && choices->programs.name_count > 0 && choices->programs.policy_count > 0);
	FUZZ_CHECK(choices->programs.name_count <= PROGRAMS_NAMES_MAX);
	offer_check(command_read(line, &choices->programs, buffer), choices);
	return 0;
}
