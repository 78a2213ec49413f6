#include "spank/record/waits/callsites.h"

#include "spank/base/json.h"
#include "spank/base/memory.h"
#include "spank/record/waits/calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES 4 /* of a site in a node's record, before its numbers */
#define OTHER "other"

bool callsite_module_ok(const char *name)
{
	return name[0] != '.' && characters_ok(name, CALLSITE_LETTERS);
}

static bool is_named(const struct callsite *site)
{
	return site->module[0] != '\0';
}

/* What is in no module is one. */
static bool is_same(const struct callsite *a, const struct callsite *b)
{
	if (!is_named(a) || !is_named(b))
		return is_named(a) == is_named(b);
	return a->offset == b->offset && strcmp(a->call, b->call) == 0 && strcmp(a->build_id, b->build_id) == 0 &&
	       strcmp(a->module, b->module) == 0;
}

/* There is always room for all others. */
static struct callsite *site_find(struct callsites *sum, const struct callsite *wanted)
{
	static const struct callsite other = {.call = OTHER};
	struct callsite *site;
	size_t named = 0;

	for (size_t i = 0; i < sum->count; i++) {
		if (is_same(&sum->site[i], wanted))
			return &sum->site[i];
		named += is_named(&sum->site[i]);
	}
	if (is_named(wanted) && named == CALLSITES_MAX)
		return site_find(sum, &other);
	site = &sum->site[sum->count++];
	*site = is_named(wanted) ? *wanted : other;
	site->waited = (struct waited){.most_rank = -1};
	return site;
}

void callsites_put(struct callsites *sum, const struct callsite *more)
{
	record_waited_add(&site_find(sum, more)->waited, &more->waited);
}

static int site_compare(const void *left, const void *right)
{
	const struct callsite *a = *(const struct callsite *const *)left, *b = *(const struct callsite *const *)right;
	uint64_t a_us = a->waited.wait_us, b_us = b->waited.wait_us;
	int by_module = strcmp(a->module, b->module);

	if (is_named(a) != is_named(b))
		return is_named(a) ? -1 : 1;
	if (a_us != b_us)
		return a_us < b_us ? 1 : -1;
	if (by_module != 0)
		return by_module;
	return (a->offset > b->offset) - (a->offset < b->offset);
}

/* Most waiting first, so many of them, and the rest as one. */
static void sites_choose(const struct callsites *all, struct callsites *ret_kept)
{
	const struct callsite *sorted[CALLSITES_MAX + 1] = {NULL};

	ret_kept->count = 0;
	for (size_t i = 0; i < all->count; i++)
		sorted[i] = &all->site[i];
	qsort(sorted, all->count, sizeof(sorted[0]), site_compare);
	for (size_t i = 0; i < all->count; i++) {
		struct callsite site = *sorted[i];

		if (i >= CALLSITES_KEPT)
			site.module[0] = '\0';
		callsites_put(ret_kept, &site);
	}
}

void callsites_write(json_t *wait, const struct callsites *sites)
{
	struct callsites kept;
	json_t *list;

	if (sites->count == 0)
		return;
	sites_choose(sites, &kept);
	list = json_array();
	for (size_t i = 0; i < kept.count; i++) {
		const struct callsite *site = &kept.site[i];
		const struct waited *waited = &site->waited;

		json_array_append_new(list, json_pack("[s, s, I, s, I, I, I, i]", site->module, site->build_id,
		                                      (json_int_t)site->offset, site->call, (json_int_t)waited->waits,
		                                      (json_int_t)waited->wait_us, (json_int_t)waited->most_us,
		                                      waited->most_rank));
	}
	json_object_set_new(wait, "sites", list);
}

static bool text_of(const json_t *value, char *buffer, size_t size)
{
	const char *text = json_string_value(value);

	if (!text || json_string_length(value) >= size || strlen(text) != json_string_length(value))
		return false;
	strcpy(buffer, text);
	return true;
}

static bool names_read(const json_t *json, struct callsite *ret_site)
{
	if (!text_of(json_array_get(json, 0), ret_site->module, sizeof(ret_site->module)) ||
	    !text_of(json_array_get(json, 1), ret_site->build_id, sizeof(ret_site->build_id)) ||
	    !text_of(json_array_get(json, 3), ret_site->call, sizeof(ret_site->call)))
		return false;
	return callsite_module_ok(ret_site->module) && characters_ok(ret_site->build_id, JSON_DIGITS "abcdef") &&
	       (record_call_name_ok(ret_site->call) || strcmp(ret_site->call, OTHER) == 0);
}

static bool site_read(const json_t *json, struct callsite *ret_site)
{
	return names_read(json, ret_site) && integer_of(json_array_get(json, 2), INT64_MAX, &ret_site->offset) &&
	       record_waited_read(json, NAMES, &ret_site->waited);
}

bool callsites_read(const json_t *json, struct callsites **ret_sites)
{
	struct callsites *sites;

	if (!json)
		return true;
	if (!json_is_array(json) || json_array_size(json) > CALLSITES_KEPT + 1)
		return false;
	sites = memory_array(1, sizeof(*sites));
	if (!sites)
		return false;
	*ret_sites = sites;
	for (size_t i = 0; i < json_array_size(json); i++) {
		struct callsite site = {.offset = 0};

		if (!site_read(json_array_get(json, i), &site))
			return false;
		callsites_put(sites, &site);
	}
	return true;
}

void callsites_add(struct callsites *sum, const struct callsites *from, uint32_t node)
{
	for (size_t i = 0; from && i < from->count; i++) {
		struct callsite site = from->site[i];

		site.waited.most_node = node;
		callsites_put(sum, &site);
	}
}

static json_t *site_print(const struct callsite *site, const struct record_names *names)
{
	json_t *json = json_object();
	char offset[24];

	if (is_named(site)) {
		snprintf(offset, sizeof(offset), "0x%" PRIx64, site->offset);
		json_object_set_new(json, "module", json_string(site->module));
		json_object_set_new(json, "offset", json_string(offset));
	}
	if (is_named(site) && site->build_id[0])
		json_object_set_new(json, "build_id", json_string(site->build_id));
	json_object_set_new(json, "call", json_string(site->call));
	record_waited_print(json, &site->waited, names);
	return json;
}

void callsites_print(json_t *wait, const struct callsites *sum, const struct record_names *names)
{
	struct callsites kept;
	json_t *list;

	if (sum->count == 0)
		return;
	sites_choose(sum, &kept);
	list = json_array();
	for (size_t i = 0; i < kept.count; i++)
		json_array_append_new(list, site_print(&kept.site[i], names));
	json_object_set_new(wait, "sites", list);
}
