#include "spank/cpufreq/journal_line.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/base/memory.h"

#define CHECKSUM_SIZE 9 /* eight digits and a space */
#define MODE_MASK     07777

uint32_t journal_crc(const char *bytes, size_t length)
{
	uint32_t crc = UINT32_MAX;

	/* CRC-32 of IEEE 802.3, bit by bit: lines are short and few */
	for (size_t i = 0; i < length; i++) {
		crc ^= (unsigned char)bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
	}
	return ~crc;
}

/* A governor's name as the kernel has them: no spaces, nothing that is not printed. */
static bool is_governor(const char *name)
{
	size_t length = strlen(name);

	return length > 0 && length < CPUFREQ_TEXT_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == length;
}

const char *journal_change_refusal(const struct journal_change *change)
{
	bool governor = change->file == CPUFREQ_GOVERNOR;

	if (change->file >= CPUFREQ_FILE_COUNT)
		return "no such file";
	if (governor ? change->low_khz || change->high_khz : change->governor[0] != '\0')
		return "a value of the wrong kind";
	if (change->governor[0] && !is_governor(change->governor))
		return "no governor's name";
	if (change->low_khz > change->high_khz || change->high_khz > INT32_MAX ||
	    (!change->low_khz && change->high_khz))
		return "no range of kHz";
	if (change->gives && change->owner.mode & ~(mode_t)0666)
		return "a mode that no such file has";
	if (!change->gives && !change->governor[0] && !change->low_khz)
		return "nothing is changed";
	return NULL;
}

static const char *found_refusal(const struct journal_entry *entry)
{
	const char *value = entry->found.value;
	uint32_t khz;

	if (entry->found.owner.mode & ~(mode_t)MODE_MASK)
		return "a mode that no file has";
	if (entry->change.file == CPUFREQ_GOVERNOR)
		return is_governor(value) ? NULL : "no governor's name was found";
	if (entry->change.file == CPUFREQ_SETSPEED && !value[0])
		return NULL;
	return cpufreq_khz_parse(value, &khz) ? NULL : "no frequency was found";
}

static int line_make(json_t *json, char line[JOURNAL_LINE_MAX])
{
	cleanup_free char *text = json ? memory_text(json, JSON_COMPACT) : NULL;
	int length;

	if (!text)
		return -ENOMEM;
	length = snprintf(line, JOURNAL_LINE_MAX, "%08x %s\n", journal_crc(text, strlen(text)), text);
	return length < JOURNAL_LINE_MAX ? length : -EINVAL;
}

int journal_line_head(const struct holder *holder, char line[JOURNAL_LINE_MAX])
{
	json_auto_t *json =
	        json_pack("{s:i, s:s, s:I, s:I, s:I, s:I}", "mpi_wait_journal", JOURNAL_VERSION, "boot", holder->boot,
	                  "job", (json_int_t)holder->job_id, "step", (json_int_t)holder->step_id, "process",
	                  (json_int_t)holder->process, "start", (json_int_t)holder->start);

	return line_make(json, line);
}

static json_t *owner_to_json(const struct cpufreq_owner *owner)
{
	return json_pack("[I, I, I]", (json_int_t)owner->uid, (json_int_t)owner->gid, (json_int_t)owner->mode);
}

int journal_line_entry(const struct journal_entry *entry, char line[JOURNAL_LINE_MAX])
{
	const struct journal_change *change = &entry->change;
	unsigned failures = memory_failures();
	json_auto_t *json = NULL;

	if (entry->policy >= CPUFREQ_POLICIES || journal_change_refusal(change) || found_refusal(entry))
		return -EINVAL;
	json = json_pack("{s:I, s:s, s:s, s:o}", "policy", (json_int_t)entry->policy, "file",
	                 cpufreq_file_name(change->file), "found", entry->found.value, "owner",
	                 owner_to_json(&entry->found.owner));
	if (change->governor[0] && json)
		json_object_set_new(json, "set", json_string(change->governor));
	if (change->low_khz && json)
		json_object_set_new(json, "khz",
		                    json_pack("[I, I]", (json_int_t)change->low_khz, (json_int_t)change->high_khz));
	if (change->gives && json)
		json_object_set_new(json, "given", owner_to_json(&change->owner));
	/* a line that lacks a part would be restored without that part, or refused with the whole journal */
	return memory_failures() == failures ? line_make(json, line) : -ENOMEM;
}

/* An integer of [0, most] */
static bool number_take(const json_t *value, uint64_t most, uint64_t *ret_number)
{
	json_int_t number = json_integer_value(value);

	if (!json_is_integer(value) || number < 0 || (uint64_t)number > most)
		return false;
	*ret_number = (uint64_t)number;
	return true;
}

static bool text_take(const json_t *value, char *text, size_t size)
{
	if (!json_is_string(value) || json_string_length(value) >= size ||
	    strlen(json_string_value(value)) != json_string_length(value))
		return false;
	strcpy(text, json_string_value(value));
	return true;
}

static bool owner_take(const json_t *value, struct cpufreq_owner *ret_owner)
{
	uint64_t uid, gid, mode;

	if (json_array_size(value) != 3 || !number_take(json_array_get(value, 0), UINT32_MAX - 1, &uid) ||
	    !number_take(json_array_get(value, 1), UINT32_MAX - 1, &gid) ||
	    !number_take(json_array_get(value, 2), MODE_MASK, &mode))
		return false;
	*ret_owner = (struct cpufreq_owner){(uid_t)uid, (gid_t)gid, (mode_t)mode};
	return true;
}

static bool range_take(const json_t *value, struct journal_change *change)
{
	uint64_t low, high;

	if (json_array_size(value) != 2 || !number_take(json_array_get(value, 0), INT32_MAX, &low) ||
	    !number_take(json_array_get(value, 1), INT32_MAX, &high))
		return false;
	change->low_khz = (uint32_t)low;
	change->high_khz = (uint32_t)high;
	return low > 0;
}

static const char *head_take(const json_t *json, struct holder *ret_holder)
{
	const json_t *version = json_object_get(json, "mpi_wait_journal");
	uint64_t job, step, process, start;

	if (!json_is_integer(version))
		return "no journal";
	if (json_integer_value(version) != JOURNAL_VERSION)
		return "a version that this release does not know";
	if (json_object_size(json) != 6 ||
	    !text_take(json_object_get(json, "boot"), ret_holder->boot, sizeof(ret_holder->boot)) ||
	    !number_take(json_object_get(json, "job"), UINT32_MAX - 1, &job) ||
	    !number_take(json_object_get(json, "step"), UINT32_MAX, &step) ||
	    !number_take(json_object_get(json, "process"), INT32_MAX, &process) ||
	    !number_take(json_object_get(json, "start"), INT64_MAX, &start))
		return "a head that is malformed";
	ret_holder->job_id = (uint32_t)job;
	ret_holder->step_id = (uint32_t)step;
	ret_holder->process = (uint32_t)process;
	ret_holder->start = start;
	return NULL;
}

/* How many of the optional keys there are; -1: one is malformed. */
static int options_take(const json_t *json, struct journal_change *change)
{
	const json_t *set = json_object_get(json, "set"), *khz = json_object_get(json, "khz"),
	             *given = json_object_get(json, "given");

	change->gives = given != NULL;
	if ((set && !text_take(set, change->governor, sizeof(change->governor))) || (khz && !range_take(khz, change)) ||
	    (given && !owner_take(given, &change->owner)))
		return -1;
	return (set != NULL) + (khz != NULL) + (given != NULL);
}

static const char *entry_take(const json_t *json, struct journal_entry *ret_entry)
{
	struct journal_entry entry = {.offset = ret_entry->offset};
	char name[32];
	uint64_t policy;
	int file, options;
	const char *why;

	if (!number_take(json_object_get(json, "policy"), CPUFREQ_POLICIES - 1, &policy))
		return "no number of a policy";
	if (!text_take(json_object_get(json, "file"), name, sizeof(name)) || (file = cpufreq_file_find(name)) < 0)
		return "a file that is not ours to change";
	options = options_take(json, &entry.change);
	if (options < 0 || json_object_size(json) != 4 + (size_t)options ||
	    !text_take(json_object_get(json, "found"), entry.found.value, sizeof(entry.found.value)) ||
	    !owner_take(json_object_get(json, "owner"), &entry.found.owner))
		return "an entry that is malformed";
	entry.policy = (uint32_t)policy;
	entry.change.file = (enum cpufreq_file)file;
	why = journal_change_refusal(&entry.change);
	if (!why)
		why = found_refusal(&entry);
	if (!why)
		*ret_entry = entry;
	return why;
}

/* One line, its newline not included, to JSON; NULL with *ret_why. */
static json_t *line_read(const char *line, size_t length, const char **ret_why)
{
	char sum[CHECKSUM_SIZE + 1];
	json_t *json;

	*ret_why = "a wrong checksum";
	if (length <= CHECKSUM_SIZE || length >= JOURNAL_LINE_MAX)
		return NULL;
	snprintf(sum, sizeof(sum), "%08x ", journal_crc(line + CHECKSUM_SIZE, length - CHECKSUM_SIZE));
	if (memcmp(sum, line, CHECKSUM_SIZE) != 0)
		return NULL;
	json = memory_json(line + CHECKSUM_SIZE, length - CHECKSUM_SIZE, JSON_REJECT_DUPLICATES);
	if (!json_is_object(json)) {
		json_decref(json);
		json = NULL;
	}
	*ret_why = "no JSON object";
	return json;
}

static int refuse(struct error *error, size_t number, const char *why)
{
	return error_set(error, -EBADMSG, "line %zu: %s", number, why);
}

/* One entry more. Returns 0, -ENOMEM or -EBADMSG. */
static int entry_add(struct journal_text *text, const json_t *json, size_t offset, struct error *error)
{
	const char *why;

	if ((text->count & (text->count - 1)) == 0) {
		size_t room = text->count ? text->count * 2 : 1;
		struct journal_entry *entries = realloc(text->entries, room * sizeof(*entries));

		if (!entries)
			return error_set(error, -ENOMEM, "out of memory");
		text->entries = entries;
	}
	text->entries[text->count].offset = offset;
	why = entry_take(json, &text->entries[text->count]);
	if (why)
		return refuse(error, text->count + 2, why);
	text->count++;
	return 0;
}

static int lines_parse(const char *bytes, size_t length, struct journal_text *text, struct error *error)
{
	size_t number = 0;

	for (size_t at = 0; at < length; number++) {
		const char *end = memchr(bytes + at, '\n', length - at), *why;
		json_auto_t *json = NULL;
		int result = 0;

		text->torn = !end && number > 0;
		if (text->torn)
			break;
		json = line_read(bytes + at, end ? (size_t)(end - bytes) - at : length - at, &why);
		if (!end || !json)
			return refuse(error, number + 1, end ? why : "truncated");
		if (number > 0)
			result = entry_add(text, json, at, error);
		else if ((why = head_take(json, &text->holder)))
			result = refuse(error, 1, why);
		if (result)
			return result;
		at = (size_t)(end - bytes) + 1;
	}
	return number > 0 ? 0 : refuse(error, 1, "truncated");
}

int journal_text_parse(const char *text, size_t length, struct journal_text *ret_text, struct error *error)
{
	struct journal_text parsed = {.entries = NULL};
	int result = lines_parse(text, length, &parsed, error);

	if (result)
		journal_text_free(&parsed);
	else
		*ret_text = parsed;
	return result;
}

void journal_text_free(struct journal_text *text)
{
	free(text->entries);
	*text = (struct journal_text){.entries = NULL};
}
