#include "spank/base/log.h"

#include <stdarg.h>
#include <stdio.h>

static log_sink current_sink;

void log_set_sink(log_sink sink)
{
	current_sink = sink;
}

__attribute__((format(printf, 2, 0))) static void log_write(enum log_level level, const char *format, va_list arguments)
{
	char line[1024] = "mpi-wait: ";
	const size_t prefix = sizeof("mpi-wait: ") - 1;

	vsnprintf(line + prefix, sizeof(line) - prefix, format, arguments);
	if (current_sink)
		current_sink(level, line);
	else if (level != LOG_LEVEL_DEBUG)
		fprintf(stderr, "%s\n", line);
}

#define LOG_FUNCTION(name, level)                    \
	void name(const char *format, ...)           \
	{                                            \
		va_list arguments;                   \
                                                     \
		va_start(arguments, format);         \
		log_write(level, format, arguments); \
		va_end(arguments);                   \
	}

LOG_FUNCTION(log_error, LOG_LEVEL_ERROR)
LOG_FUNCTION(log_info, LOG_LEVEL_INFO)
LOG_FUNCTION(log_debug, LOG_LEVEL_DEBUG)
