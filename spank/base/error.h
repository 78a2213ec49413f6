/*
 * The reason of a refusal or a failure: a message that the caller owns. The first message wins.
 *
 * Pure modules write their reason here and log nothing; the function that called them first logs it once.
 */
#pragma once

#include <stdarg.h>
#include <stdio.h>

struct error {
	char text[512]; /* the message; "": nothing went wrong */
};

/* Formats the message unless there is one already, and returns `code`, for the caller to return. error may be NULL. */
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

/* Moves the message of `from` to error, unless error has one already. Clears `from`. */
static inline void error_move(struct error *error, struct error *from)
{
	if (from->text[0])
		error_set(error, 0, "%s", from->text);
	from->text[0] = '\0';
}
