/*
 * A double of sacct that answers from the JSON file $FAKE_SACCT: {"rows": [{FIELD: TEXT}], "steps": [...], "latest": N,
 * "more": TEXT, "stderr": TEXT, "status": N}. Without --duplicates, -X has the latest N rows of each job. It writes its
 * arguments as a list to $FAKE_SACCT.argv. --helpformat prints $FAKE_SACCT.helpformat.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count;
static char **words;

static bool has(const char *word)
{
	for (int i = 1; i < count; i++)
		if (strcmp(words[i], word) == 0)
			return true;
	return false;
}

/* Returns the rest of the first argument that begins so, "" if there is none. */
static const char *after(const char *begin)
{
	for (int i = 1; i < count; i++)
		if (strncmp(words[i], begin, strlen(begin)) == 0)
			return words[i] + strlen(begin);
	return "";
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

/* Returns true if the comma-separated list has the item. */
static bool is_listed(const char *list, const char *item, size_t length)
{
	for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (strcspn(at, ",") == length && strncmp(at, item, length) == 0)
			return true;
	return false;
}

/* Returns the rows of the requested jobs and of their arrays; all rows if none match. */
static json_t *rows_asked(json_t *rows)
{
	json_t *found = json_array(), *row;
	const char *ids = NULL;
	size_t i;

	for (int k = 1; k + 1 < count && !ids; k++)
		ids = strcmp(words[k], "-j") == 0 ? words[k + 1] : NULL;
	if (!ids)
		return rows;
	json_array_foreach(rows, i, row)
	{
		const char *id = text_of(row, "JobID");

		if (is_listed(ids, id, strlen(id)) || is_listed(ids, id, strcspn(id, "_")))
			json_array_append(found, row);
	}
	return json_array_size(found) > 0 ? found : rows;
}

static void row_print(const json_t *row, const char *names, const char *delimiter)
{
	for (const char *at = names; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		char *name = strndup(at, strcspn(at, ","));
		const json_t *value = json_object_get(row, name);

		printf("%s", at == names ? "" : delimiter);
		fwrite(text_of(row, name), 1, json_string_length(value), stdout);
		free(name);
	}
	putchar('\n');
}

static void more_print(const char *text, const char *delimiter)
{
	for (const char *at; (at = strstr(text, "DELIMITER")); text = at + strlen("DELIMITER"))
		printf("%.*s%s", (int)(at - text), text, delimiter);
	printf("%s", text);
}

/* Opens the file $FAKE_SACCT.SUFFIX. */
static FILE *beside(const char *suffix, const char *mode)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s.%s", getenv("FAKE_SACCT"), suffix);
	return fopen(path, mode);
}

static int helpformat(void)
{
	FILE *file = beside("helpformat", "r");
	char text[4096];
	size_t length = file ? fread(text, 1, sizeof(text), file) : 0;

	fwrite(text, 1, length, stdout);
	return file ? 0 : 1;
}

static void asked_note(void)
{
	json_t *asked = json_array();
	FILE *file = beside("argv", "w");

	for (int i = 1; i < count; i++)
		json_array_append_new(asked, json_string_nocheck(words[i]));
	if (file) {
		json_dumpf(asked, file, 0);
		fclose(file);
	}
	json_decref(asked);
}

/* Returns true if at least `latest` of the rows from `next` on are of the same job. */
static bool is_older(const json_t *rows, size_t next, const char *job, size_t latest)
{
	size_t younger = 0;

	for (size_t i = next; i < json_array_size(rows); i++)
		younger += strcmp(text_of(json_array_get(rows, i), "JobID"), job) == 0;
	return younger >= latest;
}

int main(int argc, char **argv)
{
	json_t *canned, *rows, *row;
	size_t i, latest = SIZE_MAX;

	count = argc;
	words = argv;
	if (has("--helpformat"))
		return helpformat();
	canned = json_load_file(getenv("FAKE_SACCT"), JSON_ALLOW_NUL, NULL);
	if (!canned)
		return 99;
	asked_note();
	rows = rows_asked(json_object_get(canned, "rows"));
	if (has("-X") && !has("--duplicates"))
		latest = (size_t)json_integer_value(json_object_get(canned, "latest"));
	json_array_foreach(rows, i, row) if (!is_older(rows, i + 1, text_of(row, "JobID"), latest))
	        row_print(row, after("--format="), after("--delimiter="));
	if (!has("-X"))
		json_array_foreach(json_object_get(canned, "steps"), i, row)
		        row_print(row, after("--format="), after("--delimiter="));
	more_print(text_of(canned, "more"), after("--delimiter="));
	fprintf(stderr, "%s", text_of(canned, "stderr"));
	return (int)json_integer_value(json_object_get(canned, "status"));
}
