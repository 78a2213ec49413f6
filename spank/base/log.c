#include "spank/base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LOG_LINE_MAX 1024

static log_sink current_sink;

void log_set_sink(log_sink sink)
{
	current_sink = sink;
}

/*
 * Appends the text, as far as it fits. A byte that is no printable ASCII is written as \xNN, whole or not at all: the
 * message may hold a directory's name that a user chose, which must not end the line or move a terminal's cursor.
 */
static void line_append(char line[LOG_LINE_MAX], const char *text)
{
	size_t used = strlen(line);

	for (; *text; text++) {
		bool is_plain = *text >= ' ' && *text <= '~';
		size_t length = is_plain ? 1 : sizeof("\\xNN") - 1;

		if (used + length >= LOG_LINE_MAX)
			return;
		used += (size_t)snprintf(line + used, LOG_LINE_MAX - used, is_plain ? "%c" : "\\x%02x",
		                         (unsigned char)*text);
	}
}

void log_line(enum log_level level, const char *format, ...)
{
	char line[LOG_LINE_MAX] = "mpi-wait: ", text[LOG_LINE_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	line_append(line, text);
	if (current_sink)
		current_sink(level, line);
	else if (level != LOG_LEVEL_DEBUG)
		fprintf(stderr, "%s\n", line);
}
