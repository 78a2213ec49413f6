#include "spank/record/waits/rows.h"

#include "spank/base/memory.h"
#include "spank/record/parts/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX    (MPIWAIT_CALLS + 2)          /* most rows that any table shows */
#define PROFILE_MAX INT64_C(4611686018427387904) /* 2^62, the bound of slots.c */
#define OTHER       "other"
#define PHASE       "phase" /* row name of phases that the program numbered */

enum type {
	COUNT = 1,
	SECONDS, /* seconds, to the millisecond */
	TIME,    /* seconds, to the microsecond */
	PART,    /* part of the column before it */
	BURNED,  /* seconds, always with a fraction */
	LONGEST, /* seconds, merged as the largest */
	MOST,    /* as LONGEST, with the rank that it belongs to */
};

struct column {
	const char *name;
	enum type type;
};

static const struct column calls[ROW_NUMBERS] = {
        {"calls", COUNT}, {"waits", COUNT}, {"wait_s", SECONDS}, {"longest_s", LONGEST}};
static const struct column profile[ROW_NUMBERS] = {
        {"calls", COUNT}, {"time_s", TIME}, {"wait_s", PART}, {"bytes", COUNT}};
static const struct column spun[ROW_NUMBERS] = {{"s", BURNED}, {"cpu_s", BURNED}};
static const struct column phases[ROW_NUMBERS] = {
        {"time_s", SECONDS}, {"waits", COUNT}, {"wait_s", SECONDS}, {"max", MOST}};
static const struct column sites[ROW_NUMBERS] = {{"waits", COUNT}, {"wait_s", SECONDS}, {"max", MOST}};

static const struct {
	const char *key; /* key of the table in a node's record */
	const struct column *column;
	size_t order, next; /* columns that rows are sorted by, largest first */
	size_t read;        /* most rows that a node may write */
	size_t room;        /* most named rows while they are added up */
	size_t kept;        /* most named rows written and printed; 0: as the record's detail says */
	int64_t most;       /* largest number that a node may write */
	bool takes_other;   /* a node may write a row of all others */
	bool sums_others;   /* rows beyond `kept` are summed in one */
} kinds[ROWS_KINDS] = {
        [ROWS_CALLS] = {"calls", calls, 2, 2, MPIWAIT_CALLS + 1, MPIWAIT_CALLS + 1, 0, RECORD_US_MAX, true, true},
        [ROWS_PROFILE] = {"profile", profile, 1, 3, MPIWAIT_CALLS, MPIWAIT_CALLS + 1, 0, PROFILE_MAX, false, true},
        [ROWS_SPUN] = {"spun", spun, 0, 0, 16, MPIWAIT_CALLS + 1, 16, JSON_COUNT_MAX, true, false},
        [ROWS_PHASES] = {"phases", phases, 2, 2, 16 + 2, ROWS_PHASE_MAX - 2, 16, RECORD_US_MAX, false, true},
        [ROWS_SITES] = {"sites", sites, 1, 1, 24 + 1, ROWS_SITE_MAX - 1, 24, RECORD_US_MAX, false, true},
};

static const struct record_row other = {.where = ROW_PHASE_OTHER, .most_rank = -1};

static bool is_named(const struct record_row *row)
{
	return row->name[0] != '\0';
}

static bool is_same(const struct record_row *a, const struct record_row *b)
{
	return a->where == b->where && strcmp(a->name, b->name) == 0 && strcmp(a->call, b->call) == 0 &&
	       strcmp(a->build_id, b->build_id) == 0;
}

void row_phase(struct record_row *row, int32_t level)
{
	row->where = level;
	strcpy(row->name, level != ROW_PHASE_NONE && level != ROW_PHASE_OTHER ? PHASE : "");
}

/*
 * Returns the row equal to *wanted; makes it if there is none. If the named rows are full, returns the row of all
 * others. NULL: no memory.
 */
static struct record_row *row_find(enum rows_kind kind, struct record_rows *rows, const struct record_row *wanted)
{
	struct record_row *row;
	size_t named = 0;

	for (size_t i = 0; i < rows->count; i++) {
		if (is_same(&rows->row[i], wanted))
			return &rows->row[i];
		named += is_named(&rows->row[i]);
	}
	if (is_named(wanted) && named == kinds[kind].room)
		return row_find(kind, rows, &other);
	row = rows->has_room ? rows->row : memory_more(rows->row, rows->count, sizeof(*row));
	if (!row)
		return NULL;
	rows->row = row;
	row += rows->count++;
	*row = *wanted;
	memset(row->number, 0, sizeof(row->number));
	row->most_rank = -1;
	row->sizes = NULL;
	return row;
}

void row_add(enum rows_kind kind, struct record_row *sum, const struct record_row *more)
{
	/* a profile's sums are printed, and never read again */
	double most = kind == ROWS_PROFILE ? INFINITY : (double)kinds[kind].most;

	for (size_t i = 0; i < ROW_NUMBERS; i++) {
		if (kinds[kind].column[i].type < LONGEST) {
			sum->number[i] = fmin(sum->number[i] + more->number[i], most);
		} else if (more->number[i] > sum->number[i]) {
			sum->number[i] = more->number[i];
			sum->most_rank = more->most_rank;
			sum->most_node = more->most_node;
		}
	}
}

void rows_put(enum rows_kind kind, struct record_rows *sum, const struct record_row *more)
{
	struct record_row *row = row_find(kind, sum, is_named(more) || kind == ROWS_PHASES ? more : &other);

	if (!row)
		return;
	row_add(kind, row, more);
	if (more->sizes && !row->sizes)
		row->sizes = memory_array(MPIWAIT_SIZES, sizeof(*row->sizes));
	for (size_t i = 0; more->sizes && row->sizes && i < MPIWAIT_SIZES; i++)
		row->sizes[i] += more->sizes[i];
}

void rows_add(enum rows_kind kind, struct record_rows *sum, const struct record_rows *from, uint32_t node)
{
	for (size_t i = 0; i < from->count; i++) {
		struct record_row row = from->row[i];

		row.most_node = node;
		rows_put(kind, sum, &row);
	}
}

void rows_free(struct record_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		free(rows->row[i].sizes);
	if (!rows->has_room)
		free(rows->row);
}

/* Orders rows: named ones first, each group largest first. */
static int row_compare(const void *left, const void *right, void *kind)
{
	const struct record_row *a = *(const struct record_row *const *)left,
	                        *b = *(const struct record_row *const *)right;
	enum rows_kind of = *(const enum rows_kind *)kind;
	size_t order[] = {kinds[of].order, kinds[of].next};
	int by_name = strcmp(a->name, b->name);

	if (is_named(a) != is_named(b))
		return is_named(a) ? -1 : 1;
	for (size_t i = 0; i < 2; i++)
		if (a->number[order[i]] != b->number[order[i]])
			return a->number[order[i]] < b->number[order[i]] ? 1 : -1;
	return by_name != 0 ? by_name : (a->where > b->where) - (a->where < b->where);
}

/*
 * Chooses the `most` named rows to show, and sums all others in *others. Returns the number of shown rows; 0 for
 * phases if the program named none.
 */
static size_t rows_choose(enum rows_kind kind, const struct record_rows *rows, size_t most,
                          const struct record_row *shown[ROWS_MAX], struct record_row *others)
{
	size_t count = 0, kept = 0;
	bool has_others = false;

	*others = other;
	for (size_t i = 0; i < rows->count; i++) {
		const double *number = rows->row[i].number;

		if (kind != ROWS_CALLS || number[1] > 0 || number[2] > 0) /* the function waited on some node */
			shown[count++] = &rows->row[i];
	}
	qsort_r(shown, count, sizeof(shown[0]), row_compare, &kind);
	if (kind == ROWS_PHASES && count > 0 && !is_named(shown[0]))
		return 0;
	for (size_t i = 0; i < count; i++) {
		if (is_named(shown[i]) ? i < most : shown[i]->where == ROW_PHASE_NONE) {
			shown[kept++] = shown[i];
			continue;
		}
		row_add(kind, others, shown[i]);
		if (kinds[kind].sums_others && !has_others)
			shown[kept++] = others;
		has_others = true;
	}
	return kept;
}

static const char *row_name(enum rows_kind kind, const struct record_row *row, char buffer[16])
{
	if (kind != ROWS_PHASES || row->where == ROW_PHASE_OTHER)
		return is_named(row) ? row->name : OTHER;
	if (row->where == ROW_PHASE_NONE)
		return "none";
	snprintf(buffer, 16, "%d", (int)row->where);
	return buffer;
}

/* Returns the sizes without the empty classes at the end. */
static json_t *sizes_write(const double *sizes)
{
	json_t *json = json_array();
	size_t used = MPIWAIT_SIZES;

	while (used > 0 && sizes[used - 1] == 0)
		used--;
	for (size_t i = 0; i < used; i++)
		json_array_append_new(json, json_integer((json_int_t)sizes[i]));
	return json;
}

/* Returns a row as a node writes it. */
static json_t *row_json(enum rows_kind kind, const struct record_row *row)
{
	bool named = is_named(row);
	json_t *json = kind == ROWS_SITES ? json_pack("[s, s, I, s]", row->name, row->build_id, named ? row->where : 0,
	                                              named ? row->call : OTHER)
	                                  : json_array();

	if (kind == ROWS_PHASES)
		json_array_append_new(json, json_integer(row->where));
	for (size_t i = 0; i < ROW_NUMBERS && kinds[kind].column[i].name; i++) {
		json_array_append_new(json, json_integer((json_int_t)row->number[i]));
		if (kinds[kind].column[i].type == MOST)
			json_array_append_new(json, json_integer(row->most_rank));
	}
	if (row->sizes)
		json_array_append_new(json, sizes_write(row->sizes));
	return json;
}

void row_write(enum rows_kind kind, json_t *table, const struct record_row *row)
{
	char buffer[16];

	json_object_set_new(table, row_name(kind, row, buffer), row_json(kind, row));
}

static bool function_ok(const char *name)
{
	return strncmp(name, "MPI_", 4) == 0 && name[4] && strlen(name) < ROW_NAME_MAX &&
	       characters_ok(name + 4, JSON_LETTERS "_");
}

static bool function_read(enum rows_kind kind, const char *name, struct record_row *ret_row)
{
	bool is_other = strcmp(name, OTHER) == 0;

	if (is_other ? !kinds[kind].takes_other : !function_ok(name))
		return false;
	snprintf(ret_row->name, sizeof(ret_row->name), "%s", is_other && kinds[kind].sums_others ? "" : name);
	return true;
}

static bool site_read(const json_t *json, struct record_row *ret_row)
{
	uint64_t offset;

	if (!text_of(json_array_get(json, 0), ret_row->name, sizeof(ret_row->name), ROW_MODULE_LETTERS) ||
	    ret_row->name[0] == '.' ||
	    !text_of(json_array_get(json, 1), ret_row->build_id, sizeof(ret_row->build_id), JSON_DIGITS "abcdef") ||
	    !integer_of(json_array_get(json, 2), INT64_MAX, &offset) ||
	    !text_of(json_array_get(json, 3), ret_row->call, sizeof(ret_row->call), JSON_LETTERS "_"))
		return false;
	ret_row->where = (int64_t)offset;
	return function_ok(ret_row->call) || strcmp(ret_row->call, OTHER) == 0;
}

static bool phase_read(const json_t *json, struct record_row *ret_row)
{
	int32_t level;

	if (!rank_of(json_array_get(json, 0), &level) ||
	    (level < ROW_PHASE_FIRST && level != ROW_PHASE_NONE && level != ROW_PHASE_OTHER))
		return false;
	row_phase(ret_row, level);
	return true;
}

static bool sizes_read(const json_t *json, int64_t most, double sizes[MPIWAIT_SIZES])
{
	if (!json_is_array(json) || json_array_size(json) > MPIWAIT_SIZES)
		return false;
	for (size_t i = 0; i < json_array_size(json); i++)
		if (!whole_of(json_array_get(json, i), most, &sizes[i]))
			return false;
	return true;
}

static bool numbers_read(enum rows_kind kind, const json_t *json, size_t at, struct record_row *row)
{
	for (size_t i = 0; i < ROW_NUMBERS && kinds[kind].column[i].name; i++) {
		if (!whole_of(json_array_get(json, at++), kinds[kind].most, &row->number[i]))
			return false;
		if (kinds[kind].column[i].type == MOST && !rank_of(json_array_get(json, at++), &row->most_rank))
			return false;
	}
	if (row->sizes && !sizes_read(json_array_get(json, at++), kinds[kind].most, row->sizes))
		return false;
	return json_array_size(json) == at;
}

/* Reads one row and adds it to *sum. name: the row's key if the table is an object. */
static bool row_read(enum rows_kind kind, const char *name, const json_t *json, struct record_rows *sum)
{
	double sizes[MPIWAIT_SIZES] = {0};
	struct record_row row = {.most_rank = -1, .sizes = kind == ROWS_PROFILE ? sizes : NULL};
	bool good = kind == ROWS_PHASES  ? phase_read(json, &row) && numbers_read(kind, json, 1, &row)
	            : kind == ROWS_SITES ? site_read(json, &row) && numbers_read(kind, json, 4, &row)
	                                 : function_read(kind, name, &row) && numbers_read(kind, json, 0, &row);

	if (good)
		rows_put(kind, sum, &row);
	return good;
}

bool rows_read(enum rows_kind kind, const json_t *wait, struct record_rows *sum)
{
	json_t *table = json_object_get(wait, kinds[kind].key), *row;
	const char *name;
	size_t i;

	if (!table)
		return kind != ROWS_CALLS;
	if (kind == ROWS_PHASES || kind == ROWS_SITES ? !json_is_array(table) : !json_is_object(table))
		return false;
	if (json_object_size(table) + json_array_size(table) > kinds[kind].read)
		return false;
	json_object_foreach(table, name, row) if (!row_read(kind, name, row, sum)) return false;
	json_array_foreach(table, i, row) if (!row_read(kind, NULL, row, sum)) return false;
	return true;
}

/* Returns column i as the job's record has it; NULL leaves it out. */
static json_t *number_print(enum type type, const struct record_row *row, size_t i, const struct record_names *names)
{
	double value = type == PART ? fmin(row->number[i], row->number[i - 1]) : row->number[i];

	if (type == COUNT)
		return number(value, 0);
	if (type == BURNED)
		return record_seconds_real(value);
	if (type == MOST)
		return value > 0 ? record_rank_print(names->ranks_apart ? -1 : row->most_rank, value / 1e6,
		                                     names->node[row->most_node])
		                 : NULL;
	return number(fmin(value / 1e6, RECORD_SECONDS_MAX), type == TIME || type == PART ? 6 : 3);
}

/* Returns the calls by size. A key is the least number of bytes in its class. */
static json_t *sizes_print(const double *sizes)
{
	json_t *json = json_object();
	char key[24];

	for (size_t i = 0; i < MPIWAIT_SIZES; i++) {
		if (sizes[i] == 0)
			continue;
		snprintf(key, sizeof(key), "%llu", i == 0 ? 0ULL : 1ULL << (i - 1));
		json_object_set_new(json, key, number_whole(sizes[i]));
	}
	return json;
}

static json_t *site_print(const struct record_row *row)
{
	json_t *json = json_object();

	if (is_named(row)) {
		json_object_set_new(json, "module", json_string(row->name));
		json_object_set_new(json, "offset", json_sprintf("0x%" PRIx64, (uint64_t)row->where));
	}
	object_set_some(json, "build_id", json_string(row->build_id));
	json_object_set_new(json, "call", json_string(is_named(row) ? row->call : OTHER));
	return json;
}

static json_t *row_print(enum rows_kind kind, const struct record_row *row, const struct record_names *names,
                         bool with_sizes)
{
	json_t *json = kind == ROWS_SITES ? site_print(row) : json_object(), *value;

	for (size_t i = 0; i < ROW_NUMBERS && kinds[kind].column[i].name; i++)
		if ((value = number_print(kinds[kind].column[i].type, row, i, names)))
			json_object_set_new(json, kinds[kind].column[i].name, value);
	object_set_some(json, "sizes", with_sizes && row->sizes ? sizes_print(row->sizes) : NULL);
	return json;
}

/* Sets the table in `wait`. names: of the job's nodes; NULL: the table is written as a node writes it. */
static void rows_set(enum rows_kind kind, json_t *wait, const struct record_rows *rows, size_t most,
                     const struct record_names *names, bool with_sizes)
{
	const struct record_row *shown[ROWS_MAX];
	struct record_row others;
	size_t count = rows_choose(kind, rows, most, shown, &others);
	json_t *table = kind == ROWS_SITES || (kind == ROWS_PHASES && !names) ? json_array() : json_object();
	char buffer[16];

	for (size_t i = 0; i < count; i++) {
		json_t *row = names ? row_print(kind, shown[i], names, with_sizes) : row_json(kind, shown[i]);

		if (json_is_array(table))
			json_array_append_new(table, row);
		else
			json_object_set_new(table, row_name(kind, shown[i], buffer), row);
	}
	if (kind == ROWS_CALLS)
		json_object_set_new(wait, "by_call", table);
	else
		object_set_some(wait, kinds[kind].key, table);
}

void rows_write(enum rows_kind kind, json_t *wait, const struct record_rows *rows)
{
	rows_set(kind, wait, rows, kinds[kind].kept, NULL, false);
}

void rows_print(enum rows_kind kind, json_t *wait, const struct record_rows *rows, const struct record_names *names,
                const struct record_detail *detail)
{
	rows_set(kind, wait, rows, kinds[kind].kept > 0 ? kinds[kind].kept : detail->calls, names, detail->sizes);
}
