#include "spank/policy/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/contract/program_name.h"
#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/json.h"
#include "spank/base/memory.h"
#include "spank/policy/apart.h"
#include "spank/policy/key.h"

#define FILE_SIZE_MAX (256 * 1024)

#define TEXT(word)    TEXT_OF(word)
#define TEXT_OF(x)    #x
#define FIELD(member) KEY_FIELD(struct programs, member)
#define COUNT(keys)   (sizeof(keys) / sizeof((keys)[0]))

/* Characters of a name: none that separates the parts of MPI_WAIT_CONFIG. */
#define NAME JSON_LETTERS JSON_DIGITS "._+@%-"

#define NAME_RULE "(a base name: letters, digits and ._+@%%-, under " TEXT(CONFIG_PROGRAM_MAX) " bytes)"

/* Checks that a value is a list of 1 to `most` elements. */
static int list_check(const json_t *value, const char *key, size_t most, struct error *error)
{
	if (json_is_array(value) && json_array_size(value) > 0 && json_array_size(value) <= most)
		return 0;
	return error_set(error, -EINVAL, "'%s' is not a list of 1 to %zu elements", key, most);
}

/* Reads every key of an object by the table, whose names a refusal of an unknown key lists. */
static int keys_read(const json_t *object, const char *what, const struct key keys[], size_t count, void *ret_struct,
                     struct error *error)
{
	const char *names[4], *name;
	json_t *value;

	if (!json_is_object(object))
		return error_set(error, -EINVAL, "%s is not a JSON object", what);
	for (size_t i = 0; i < count; i++)
		names[i] = keys[i].name;
	json_object_foreach((json_t *)object, name, value)
	{
		const struct key *key = key_find(keys, count, name, strlen(name));
		int rc = key ? key_read(key, value, ret_struct, error)
		             : options_refuse("unknown key ", name, "", names, count, NULL, error);

		if (rc < 0)
			return -EINVAL;
	}
	return 0;
}

/* A row while it is read. */
struct row {
	const json_t *names;
	char policy[OPTIONS_TEXT_MAX];
};

static int names_note(const json_t *value, const struct key *key, void *field, struct error *error)
{
	*(const json_t **)field = value;
	return list_check(value, key->name, PROGRAMS_IN_ROW_MAX, error);
}

static const struct key row_keys[] = {
        {"names", KEY_OTHER, KEY_FIELD(struct row, names), .read = names_note},
        {"policy", KEY_TEXT, KEY_FIELD(struct row, policy),
         "a policy as for --mpi-wait-policy, under " TEXT(OPTIONS_TEXT_MAX) " bytes"},
        {"note", KEY_OTHER, .read = NULL}, /* for people */
};

/* Finds the policy's text in the list, or adds it. Returns its index, or -EINVAL. */
static int policy_put(struct programs *programs, const char *text, struct error *error)
{
	struct options options;
	struct error problem = {""};

	for (size_t i = 0; i < programs->policy_count; i++)
		if (strcmp(programs->policy[i], text) == 0)
			return (int)i;
	if (options_parse(text, &options, &problem) < 0)
		return error_set(error, -EINVAL, "policy '%.48s': %s", text, problem.text);
	if (options.csv[0])
		return error_set(error, -EINVAL, "policy '%.48s': csv= is for users, who have the directory", text);
	if (programs->policy_count == CONFIG_CHOICES_MAX)
		return error_set(error, -EINVAL, "more than %d different policies", CONFIG_CHOICES_MAX);
	strcpy(programs->policy[programs->policy_count], text);
	return (int)programs->policy_count++;
}

static int name_put(struct programs *programs, const json_t *value, uint32_t policy, struct error *error)
{
	struct programs_name *name = &programs->name[programs->name_count];
	const char *text = json_string_value(value);

	if (programs->name_count == PROGRAMS_NAMES_MAX)
		return error_set(error, -EINVAL, "more than %d names in all", PROGRAMS_NAMES_MAX);
	if (!text_of(value, name->pattern, sizeof(name->pattern), NAME "*?") || !text[0])
		return error_set(error, -EINVAL, "name '%.80s' is not a pattern with * and ? " NAME_RULE,
		                 text ? text : "that is no string");
	name->policy = policy;
	programs->name_count++;
	return 0;
}

static int row_read(struct programs *programs, const json_t *value, struct error *error)
{
	struct row row = {.names = NULL};
	const json_t *name;
	size_t i;
	int policy, rc = keys_read(value, "a row of 'programs'", row_keys, COUNT(row_keys), &row, error);

	if (rc < 0)
		return rc;
	if (!row.names || !row.policy[0])
		return error_set(error, -EINVAL, "a row of 'programs' lacks '%s'", row.names ? "policy" : "names");
	policy = policy_put(programs, row.policy, error);
	json_array_foreach(row.names, i, name)
	{
		if (policy < 0 || name_put(programs, name, (uint32_t)policy, error) < 0)
			return -EINVAL;
	}
	return 0;
}

static int rows_read(const json_t *value, const struct key *key, void *programs, struct error *error)
{
	const json_t *row;
	size_t i;
	int rc = list_check(value, key->name, PROGRAMS_ROWS_MAX, error);

	json_array_foreach(value, i, row)
	{
		if (rc == 0)
			rc = row_read(programs, row, error);
	}
	return rc;
}

static int wrappers_read(const json_t *value, const struct key *key, void *field, struct error *error)
{
	struct programs *programs = field;
	const json_t *name;
	size_t i;
	int rc = list_check(value, key->name, PROGRAMS_WRAPPERS_MAX, error);

	json_array_foreach(value, i, name)
	{
		const char *text = json_string_value(name);
		char *wrapper = programs->wrapper[programs->wrapper_count];

		if (rc < 0)
			return rc;
		if (!text_of(name, wrapper, CONFIG_PROGRAM_MAX, NAME) || !text[0])
			return error_set(error, -EINVAL, "wrapper '%.80s' is not a name " NAME_RULE,
			                 text ? text : "that is no string");
		programs->wrapper_count++;
	}
	return rc;
}

static int version_read(const json_t *value, const struct key *key, void *programs, struct error *error)
{
	(void)programs;
	if (json_is_integer(value) && json_integer_value(value) == 1)
		return 0;
	return error_set(error, -EINVAL, "'%s' is not 1, the version that this release reads", key->name);
}

static const struct key file_keys[] = {
        {"v", KEY_OTHER, .read = version_read},
        {"programs", KEY_OTHER, .read = rows_read},
        {"wrappers", KEY_OTHER, .read = wrappers_read},
        {"note", KEY_OTHER, .read = NULL},
};

int programs_parse(const char *text, size_t length, struct programs *ret_programs, struct error *error)
{
	unsigned failures = memory_failures();
	json_error_t problem;
	json_auto_t *root = memory_json_explained(text, length, JSON_REJECT_DUPLICATES, &problem);
	int rc;

	ret_programs->policy_count = ret_programs->name_count = ret_programs->wrapper_count = 0;
	if (memory_failures() != failures)
		return error_set(error, -ENOMEM, "no memory to read it");
	if (!root)
		return error_set(error, -EINVAL, "line %d: %s", problem.line, problem.text);
	rc = keys_read(root, "the file", file_keys, COUNT(file_keys), ret_programs, error);
	if (rc == 0 && (!json_object_get(root, "v") || !json_object_get(root, "programs")))
		rc = error_set(error, -EINVAL, "'%s' is missing", json_object_get(root, "v") ? "programs" : "v");
	return rc;
}

int programs_read(const char *path, struct programs *ret_programs, struct error *error)
{
	cleanup_free char *text = NULL;
	struct error problem = {""};
	size_t length = 0;
	int rc = files_read(AT_FDCWD, path, FILE_SIZE_MAX, &text, &length);

	if (rc < 0)
		error_set(&problem, rc, "not a readable regular file of at most %d bytes (%s)", FILE_SIZE_MAX,
		          strerror(-rc));
	else
		rc = programs_parse(text, length, ret_programs, &problem);
	return rc < 0 ? error_set(error, rc, "programs '%s' left out: %s", path, problem.text) : 0;
}

/* The file as the reading process found it. */
struct found {
	struct programs programs;
	struct error error;
	int result;
};

static void found_read(const char *path, void *found)
{
	struct found *here = found;

	here->result = programs_read(path, &here->programs, &here->error);
}

int programs_load(const char *path, struct programs *ret_programs, struct error *error)
{
	struct found *found = apart_read(path, found_read, sizeof(*found));
	int result = found ? found->result : -errno;

	if (!found)
		return error_set(error, result, "programs '%s' left out: %s", path, strerror(-result));
	*ret_programs = found->programs;
	error_move(error, &found->error);
	munmap(found, sizeof(*found));
	return result;
}

int programs_find(const struct programs *programs, const char *program)
{
	if (strnlen(program, NAME_MAX + 1) > NAME_MAX)
		return -1; /* no file has such a name */
	for (size_t i = 0; i < programs->name_count; i++)
		if (program_name_matches(programs->name[i].pattern, strlen(programs->name[i].pattern), program))
			return (int)i;
	return -1;
}
