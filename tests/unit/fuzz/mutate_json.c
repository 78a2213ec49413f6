/*
 * Changes JSON as JSON: bytes that are flipped seldom leave a document that gets past the parser. The input is lines,
 * each of them a document; one is changed, by a value, a key, or a part that is copied elsewhere. Half of the changes
 * are libFuzzer's own all the same.
 */
#include "tests/unit/fuzz/fuzz.h"

#include <jansson.h>

#include "spank/base/cleanup.h"

#define DEPTH_MAX  8
#define COPIES_MAX 64

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed);

static uint32_t state;

static uint32_t any(uint32_t below)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % below;
}

static json_t *string_any(void)
{
	static const char *const words[] = {"",        "nap",    "profile", "job",         "off",          "MPI_Recv",
	                                    "other",   "c[1-2]", "0-3,8",   "lease",       "rapl",         "simulated",
	                                    "package", "../x",   "a\nb",    "\xc3\xa9 =%", "core_throttle"};
	char text[400];
	size_t length = any(2) ? any(70) : any(sizeof(text));

	if (any(3))
		return json_string(words[any(sizeof(words) / sizeof(words[0]))]);
	memset(text, 'a' + (int)any(26), length);
	return json_stringn(text, length);
}

static json_t *value_any(void)
{
	static const json_int_t numbers[] = {0,
	                                     1,
	                                     -1,
	                                     2,
	                                     255,
	                                     256,
	                                     1023,
	                                     1024,
	                                     65535,
	                                     1 << 24,
	                                     INT32_MAX,
	                                     UINT32_MAX,
	                                     1000000000000000,
	                                     INT64_MAX,
	                                     INT64_MIN,
	                                     1000000000000000000,
	                                     (json_int_t)1 << 53,
	                                     4096};
	static const double reals[] = {0.5, -0.0, 1e11, 1e12, 1e15, 1e18, 1e300, 5e-324, 0.1, 1e-9};

	switch (any(10)) {
	case 0:
		return json_null();
	case 1:
		return json_boolean(any(2));
	case 2:
		return json_object();
	case 3:
		return json_array();
	case 4:
		return json_real(reals[any(sizeof(reals) / sizeof(reals[0]))]);
	case 5:
	case 6:
		return string_any();
	default:
		return json_integer(any(3) ? numbers[any(sizeof(numbers) / sizeof(numbers[0]))]
		                           : (json_int_t)any(1u << 20) - 4);
	}
}

/* A key of the object; NULL: it has none. */
static const char *key_any(json_t *object)
{
	size_t left = json_object_size(object) ? any((uint32_t)json_object_size(object)) : 0;
	void *place = json_object_iter(object);

	while (place && left--)
		place = json_object_iter_next(object, place);
	return place ? json_object_iter_key(place) : NULL;
}

static json_t *child_any(json_t *container)
{
	if (json_is_array(container) && json_array_size(container))
		return json_array_get(container, any((uint32_t)json_array_size(container)));
	return json_is_object(container) ? json_object_get(container, key_any(container)) : NULL;
}

static json_t *container_any(json_t *root)
{
	json_t *at = root;

	for (int depth = 0; depth < DEPTH_MAX && any(4); depth++) {
		json_t *child = child_any(at);

		if (json_is_array(child) || json_is_object(child))
			at = child;
	}
	return at;
}

static void array_mutate(json_t *array, json_t *root)
{
	size_t size = json_array_size(array), at = size ? any((uint32_t)size) : 0,
	       copies = any(8) ? 1 : any(COPIES_MAX);

	switch (any(4)) {
	case 0:
		json_array_remove(array, at);
		break;
	case 1:
		json_array_set_new(array, at, value_any());
		break;
	case 2:
		for (; size && copies > 0; copies--)
			json_array_append_new(array, json_deep_copy(json_array_get(array, at)));
		break;
	default:
		json_array_insert_new(array, at, any(2) ? value_any() : json_deep_copy(child_any(container_any(root))));
	}
}

static void object_mutate(json_t *object, json_t *root)
{
	json_t *other = container_any(root);
	const char *key = key_any(object), *other_key = json_is_object(other) ? key_any(other) : NULL;
	char text[16];

	if (!key)
		key = "v";
	switch (any(5)) {
	case 0:
		json_object_del(object, key);
		break;
	case 1:
		json_object_set_new(object, other_key ? other_key : key,
		                    json_deep_copy(child_any(container_any(root))));
		break;
	case 2:
		snprintf(text, sizeof(text), "MPI_%c%c", 'A' + (int)any(26), 'a' + (int)any(26));
		json_object_set_new(object, text, json_deep_copy(json_object_get(object, key)));
		break;
	default:
		json_object_set_new(object, key, value_any());
	}
}

/* The line as JSON, changed; NULL: it is none. */
static char *line_mutate(const char *line, size_t length)
{
	json_auto_t *root = json_loadb(line, length, 0, NULL);

	if (!root)
		return NULL;
	for (uint32_t changes = 1 + any(3); changes > 0; changes--) {
		json_t *container = container_any(root);

		if (json_is_array(container))
			array_mutate(container, root);
		else
			object_mutate(container, root);
	}
	return json_dumps(root, JSON_COMPACT);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed)
{
	cleanup_free char *text = fuzz_text(data, size), *changed = NULL;
	char *line = text, *end;
	size_t head, tail, length;

	state = seed;
	if (any(2))
		return LLVMFuzzerMutate(data, size, size_max);
	for (uint32_t skip = any(4); skip > 0 && (end = strchr(line, '\n')) && end[1]; skip--)
		line = end + 1;
	end = strchr(line, '\n');
	head = (size_t)(line - text);
	length = end ? (size_t)(end - line) : size - head;
	changed = line_mutate(line, length);
	tail = size - head - length;
	if (!changed || head + strlen(changed) + tail > size_max)
		return LLVMFuzzerMutate(data, size, size_max);
	memcpy(data + head, changed, strlen(changed));
	memcpy(data + head + strlen(changed), text + head + length, tail);
	return head + strlen(changed) + tail;
}
