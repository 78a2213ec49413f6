/*
 * A journal's lines: a checksum (CRC-32, eight hexadecimal digits), a space, and one JSON object. The first says whose
 * journal it is, each other one is a change that was about to be made. Pure.
 *
 * Strict both ways: whatever we would not have written is refused by name. Only a last line without its end is no
 * error: its writer was killed or found the disk full, and had not changed anything yet.
 */
#ifndef MPIWAIT_SPANK_JOURNAL_LINE_H
#define MPIWAIT_SPANK_JOURNAL_LINE_H

#include <stddef.h>

#include "spank/base/error.h"
#include "spank/cpufreq/holder.h"
#include "spank/cpufreq/journal.h"

#define JOURNAL_VERSION  1
#define JOURNAL_LINE_MAX 512               /* with its newline and NUL */
#define JOURNAL_FILE_MAX (4 * 1024 * 1024) /* 16384 entries of 256 bytes */

struct journal_entry {
	size_t offset; /* of its line in the file */
	uint32_t policy;
	struct journal_change change;
	struct journal_found found;
};

struct journal_text {
	struct holder holder;
	size_t count;
	struct journal_entry *entries; /* as they were written; journal_text_free */
	bool torn;                     /* a last line without its end was left out */
};

uint32_t journal_crc(const char *bytes, size_t length);

/* Return the line's length, newline included, or -EINVAL or -ENOMEM. */
int journal_line_head(const struct holder *holder, char line[JOURNAL_LINE_MAX]);
int journal_line_entry(const struct journal_entry *entry, char line[JOURNAL_LINE_MAX]);

/* Returns 0 with *ret_text to be freed, -EBADMSG with the line's number in error, or -ENOMEM. */
int journal_text_parse(const char *text, size_t length, struct journal_text *ret_text, struct error *error);
void journal_text_free(struct journal_text *text);

/* Why a change cannot be written down, or undone; NULL if it can. */
const char *journal_change_refusal(const struct journal_change *change);

#endif
