/*
 * jansson's memory and a rank's slot while libFuzzer drives: most of what a target allocates, and AddressSanitizer's
 * allocator took most of its time. Pieces are cut off one buffer, with poisoned bytes between them. One that was given
 * back is poisoned, and nothing else lies there before the input's end, so that a late access is seen however much was
 * allocated since. What is still held then was leaked. (A corpus that is replayed, by replay.c, has AddressSanitizer's
 * own allocator.)
 */
#include "tests/unit/fuzz/fuzz.h"

#include <jansson.h>
#include <sanitizer/asan_interface.h>

#define ARENA_SIZE    ((size_t)32 << 20)
#define GRAIN         16u /* of AddressSanitizer's poison 8, of malloc's promise 16 */
#define ALIGNMENT_MAX 128u
#define HELD          0x68656c64u
#define GIVEN_BACK    0x6261636bu

#define UNCHECKED __attribute__((no_sanitize("address")))

/* Before each piece, itself poisoned. */
struct head {
	uint32_t state;
	uint32_t unused;
	size_t size;
};

/* By the linker (meson.build): the targets' calls of these come here, and libFuzzer's of the target. */
void __real_free(void *pointer);
void __wrap_free(void *pointer);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__real_memcpy(void *to, const void *from, size_t size);
void *__wrap_memcpy(void *to, const void *from, size_t size);
int __real_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static _Alignas(ALIGNMENT_MAX) char arena[ARENA_SIZE];
static size_t used;
static size_t held;

UNCHECKED static void *piece_take(size_t size, size_t alignment)
{
	const size_t start = (used + sizeof(struct head) + alignment - 1) / alignment * alignment;
	struct head *head = (struct head *)(void *)(arena + start) - 1;

	if (start + GRAIN > ARENA_SIZE || size > ARENA_SIZE - start - GRAIN)
		return NULL;
	head->state = HELD;
	head->size = size;
	used = start + (size + GRAIN) / GRAIN * GRAIN;
	held++;
	ASAN_UNPOISON_MEMORY_REGION(head + 1, size);
	return head + 1;
}

UNCHECKED static void piece_give(void *pointer)
{
	struct head *head = (struct head *)pointer - 1;

	FUZZ_CHECK(head->state == HELD);
	head->state = GIVEN_BACK;
	held--;
	ASAN_POISON_MEMORY_REGION(pointer, head->size);
}

static void *json_take(size_t size)
{
	void *piece = piece_take(size, GRAIN);

	return piece ? piece : malloc(size);
}

/* A rank's slot, which AddressSanitizer would map and unmap. */
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	void *piece = alignment <= ALIGNMENT_MAX ? piece_take(size, alignment) : NULL;

	return piece ? piece : __real_aligned_alloc(alignment, size);
}

void __wrap_free(void *pointer)
{
	const char *at = pointer;

	if (at >= arena && at < arena + ARENA_SIZE)
		piece_give(pointer);
	else
		__real_free(pointer);
}

/* jansson copies most of its text byte by byte. One is checked here as well as by the sanitizer's own function. */
void *__wrap_memcpy(void *to, const void *from, size_t size)
{
	if (size != 1)
		return __real_memcpy(to, from, size);
	*(char *)to = *(const char *)from;
	return to;
}

int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool made;
	int result;

	if (!made)
		ASAN_POISON_MEMORY_REGION(arena, ARENA_SIZE);
	made = true;
	json_set_alloc_funcs(json_take, __wrap_free);
	result = __real_LLVMFuzzerTestOneInput(data, size);
	FUZZ_CHECK(held == 0);
	used = 0;
	return result;
}
