#include "spank/machine/board.h"

#include "spank/base/json.h"
#include "spank/base/proc.h"
#include "spank/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define COUNTERS "/sys/cray/pm_counters"
#define TEXT_MAX 96
#define TRIES    5
#define UJ_PER_J 1000000

/* Consumes the digits at *text. Returns true if they are a number of at most `most`. */
static bool number_take(const char **text, uint64_t most, uint64_t *ret_number)
{
	size_t length = strspn(*text, JSON_DIGITS);
	char digits[24];

	if (length == 0 || length >= sizeof(digits))
		return false;
	snprintf(digits, sizeof(digits), "%.*s", (int)length, *text);
	*text += length;
	return text_number(digits, most, ret_number);
}

static bool word_take(const char **text, const char *word)
{
	if (strncmp(*text, word, strlen(word)) != 0)
		return false;
	*text += strlen(word);
	return true;
}

/* Parses "12345 J", or in later releases "12345 J 1700000000000000 us". Without a time, *ret_mark stays. */
static bool line_parse(const char *line, uint64_t *ret_energy_uj, uint64_t *ret_mark)
{
	uint64_t energy_j;

	if (!number_take(&line, INT64_MAX / UJ_PER_J, &energy_j) || !word_take(&line, " J"))
		return false;
	*ret_energy_uj = energy_j * UJ_PER_J;
	return !*line ||
	       (word_take(&line, " ") && number_take(&line, INT64_MAX, ret_mark) && word_take(&line, " us") && !*line);
}

static bool freshness_read(uint64_t *ret_freshness)
{
	char line[TEXT_MAX];
	const char *text = line;

	/* a time may follow the number */
	return proc_line_read(AT_FDCWD, COUNTERS "/freshness", line, sizeof(line)) > 0 &&
	       number_take(&text, INT64_MAX, ret_freshness) && (!*text || *text == ' ');
}

/* Adds the counter of a file, if there is one. Returns false if the file cannot be read. */
static bool counter_add(const char *name, struct board_counter counter, struct board_counter counters[], size_t *count)
{
	char path[64], line[TEXT_MAX];
	ssize_t length;

	snprintf(path, sizeof(path), COUNTERS "/%s", name);
	length = proc_line_read(AT_FDCWD, path, line, sizeof(line));
	if (length == -ENOENT)
		return true;
	if (length <= 0 || !line_parse(line, &counter.energy_uj, &counter.mark))
		return false;
	counters[(*count)++] = counter;
	return true;
}

static bool counters_add(uint64_t freshness, struct board_counter counters[], size_t *ret_count)
{
	static const char *const names[] = {
	        [BOARD_NODE] = "energy", [BOARD_CPU] = "cpu_energy", [BOARD_MEMORY] = "memory_energy"};
	bool good = true;

	*ret_count = 0;
	for (int part = 0; part < BOARD_ACCELERATOR; part++)
		good &= counter_add(names[part], (struct board_counter){(enum board_part)part, 0, 0, freshness},
		                    counters, ret_count);
	for (uint32_t i = 0; i < BOARD_ACCELERATORS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "accel%u_energy", i);
		good &= counter_add(name, (struct board_counter){BOARD_ACCELERATOR, i, 0, freshness}, counters,
		                    ret_count);
	}
	return good;
}

bool board_there(void)
{
	return access(COUNTERS, F_OK) == 0;
}

size_t board_read(struct board_counter ret_counters[BOARD_COUNTERS_MAX], struct error *error)
{
	uint64_t before, after;
	size_t count;

	for (int try = 0; try < TRIES; try++) {
		if (!freshness_read(&before)) {
			error_set(error, -EIO, "the board's counters have no freshness");
			return 0;
		}
		if (!counters_add(before, ret_counters, &count)) {
			error_set(error, -EIO, "a counter of the board cannot be read");
			return 0;
		}
		if (freshness_read(&after) && after == before)
			return count;
	}
	error_set(error, -EAGAIN, "the board's counters changed while being read");
	return 0;
}
