/*
 * Why something was refused: a message owned by the caller, in which the first one wins.
 *
 * Pure modules explain themselves here and log nothing; the edge logs the message once.
 */
#pragma once

#include <stdarg.h>
#include <stdio.h>

struct error {
	char text[512]; /* "" while nothing went wrong */
};

/* Formats the message unless there is one already (error may be NULL), and returns code, to be returned in turn. */
__attribute__((format(printf, 3, 4))) static inline int error_set(struct error *error, int code, const char *format,
                                                                  ...)
{
	if (error && !error->text[0]) {
		va_list arguments;

		va_start(arguments, format);
		vsnprintf(error->text, sizeof(error->text), format, arguments);
		va_end(arguments);
	}
	return code;
}

/* Moves a message on, unless there is one already. */
static inline void error_move(struct error *error, struct error *from)
{
	if (from->text[0])
		error_set(error, 0, "%s", from->text);
	from->text[0] = '\0';
}
