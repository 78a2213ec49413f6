#include "spank/base/log.h"

#include <stdarg.h>
#include <stdio.h>

static log_sink current_sink;

void log_set_sink(log_sink sink)
{
	current_sink = sink;
}

void log_line(enum log_level level, const char *format, ...)
{
	char line[1024] = "mpi-wait: ";
	const size_t prefix = sizeof("mpi-wait: ") - 1;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line + prefix, sizeof(line) - prefix, format, arguments);
	va_end(arguments);
	if (current_sink)
		current_sink(level, line);
	else if (level != LOG_LEVEL_DEBUG)
		fprintf(stderr, "%s\n", line);
}
