/* Keeps the functions of tools and of what follows them. The invariant stands in forward.h. */
#include "preload/mpi/forward.h"

#include <string.h>

#include "preload/elf/definition.h"

struct range {
	uintptr_t start, size;
};

static struct way {
	void *tool;
	void *past; /* function behind the tool; NULL: there is no such tool */
	struct range text;
} ways[CALL_ROWS * CALL_NAMES];

static struct range own_text;

static __thread struct forward forwarded __attribute__((tls_model("initial-exec")));

static bool is_in(const struct range *range, uintptr_t address)
{
	return address - range->start < range->size;
}

/* Reads the object of a tool's function. Returns false if the function is in none, or in an MPI library. */
static bool tool_read(const void *found, struct object *ret_object)
{
	const struct object_name init = object_name("PMPI_Init");

	return definition_object((uintptr_t)found, ret_object) && !object_find_any(ret_object, &init);
}

bool forward_is_tool(const void *found)
{
	struct object object;

	return tool_read(found, &object);
}

bool forward_may_return(const char *name, const void *found)
{
	char profiled[64] = "P";
	struct object object;

	if (!tool_read(found, &object))
		return false;
	strncat(profiled, name[0] == 'P' ? name + 1 : name, sizeof(profiled) - 2);
	return !object_refers(&object, profiled);
}

bool forward_guard(size_t index, const char *name, void *found, void *profiled)
{
	struct way way = {.tool = found, .past = (void *)definition_behind(name, (uintptr_t)found)};

	if (!way.past)
		way.past = profiled;
	if (!way.past)
		return false;
	definition_text((uintptr_t)found, &way.text.start, &way.text.size);
	definition_text((uintptr_t)forward_tool, &own_text.start, &own_text.size);
	ways[index] = way;
	return true;
}

void *forward_tool(size_t index)
{
	return ways[index].tool;
}

/*
 * Returns true if the tool brings the thread's call back. A tool that jumps to the next function leaves our own call of
 * the tool as the caller.
 */
static bool comes_back(const struct way *way, size_t index, uintptr_t frame, uintptr_t caller)
{
	return forwarded.index == index + 1 && frame < forwarded.frame &&
	       (is_in(&way->text, caller) || is_in(&own_text, caller));
}

void *forward_begin(size_t index, void *next, uintptr_t frame, uintptr_t caller, struct forward *ret_outer)
{
	const struct way *way = &ways[index];

	if (!way->past)
		return next;
	if (comes_back(way, index, frame, caller)) {
		ret_outer->frame = FORWARD_BACK;
		return way->past;
	}
	*ret_outer = forwarded;
	forwarded = (struct forward){index + 1, frame};
	return way->tool;
}

void forward_end(const struct forward *outer)
{
	forwarded = *outer;
}
