/*
 * A journal's text. As it is, and once more with each line's checksum made right: whoever can write there can compute
 * them. What is accepted is printed again, and must then be read as the same.
 */
#include "tests/unit/fuzz/fuzz.h"

#include <errno.h>

#include "spank/base/cleanup.h"
#include "spank/cpufreq/journal_line.h"

#define SUM_SIZE 9 /* eight digits and a space */

struct text {
	char *bytes;
	size_t length;
};

static struct text text_of(size_t room)
{
	struct text text = {malloc(room), 0};

	FUZZ_CHECK(text.bytes != NULL);
	return text;
}

static void add(struct text *text, const char *bytes, size_t length)
{
	memcpy(text->bytes + text->length, bytes, length);
	text->length += length;
}

static size_t lines_of(const char *data, size_t size)
{
	size_t lines = size > 0 && data[size - 1] != '\n';

	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	return lines;
}

/* Lines of bare JSON become lines of a journal; a last one without its end stays one. No byte of room is left over. */
static struct text summed(const char *data, size_t size)
{
	struct text text = text_of(size + SUM_SIZE * lines_of(data, size));
	char sum[SUM_SIZE + 1];

	for (const char *at = data, *last = data + size; at < last;) {
		const char *end = memchr(at, '\n', (size_t)(last - at));
		size_t length = (size_t)((end ? end : last) - at);

		snprintf(sum, sizeof(sum), "%08x ", journal_crc(at, length));
		add(&text, sum, SUM_SIZE);
		add(&text, at, length + (end != NULL));
		at += length + 1;
	}
	return text;
}

static struct text printed(const struct journal_text *journal)
{
	struct text text = text_of((1 + journal->count) * JOURNAL_LINE_MAX);
	char line[JOURNAL_LINE_MAX];
	int length = journal_line_head(&journal->holder, line);

	FUZZ_CHECK(length > 0);
	add(&text, line, (size_t)length);
	for (size_t i = 0; i < journal->count; i++) {
		length = journal_line_entry(&journal->entries[i], line);
		FUZZ_CHECK(length > 0);
		add(&text, line, (size_t)length);
	}
	text.bytes = realloc(text.bytes, text.length);
	FUZZ_CHECK(text.bytes != NULL);
	return text;
}

static void play(const char *data, size_t size)
{
	struct journal_text journal = {.count = 99}, again;
	struct text first, second;
	struct error error = {""};
	int result = journal_text_parse(data, size, &journal, &error);

	if (result) {
		FUZZ_CHECK(result == -EBADMSG && error.text[0] && journal.count == 99);
		return;
	}
	for (size_t i = 0; i < journal.count; i++)
		FUZZ_CHECK(journal.entries[i].offset < size && journal.entries[i].policy < CPUFREQ_POLICIES);
	first = printed(&journal);
	FUZZ_CHECK(journal_text_parse(first.bytes, first.length, &again, &error) == 0);
	second = printed(&again);
	FUZZ_CHECK(first.length == second.length && memcmp(first.bytes, second.bytes, first.length) == 0);
	FUZZ_CHECK(again.count == journal.count && !again.torn);
	journal_text_free(&journal);
	journal_text_free(&again);
	free(first.bytes);
	free(second.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text text = summed((const char *)data, size);

	play((const char *)data, size);
	play(text.bytes, text.length);
	free(text.bytes);
	return 0;
}
