/*
 * Log lines. Each begins with "mpi-wait: ".
 *
 * The same modules run inside Slurm's daemons and in programs such as mpi-wait-node, so the process says at its start
 * where lines go.
 */
#pragma once

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Receives one whole line of printable ASCII, without a newline. */
typedef void (*log_sink)(enum log_level level, const char *line);

/*
 * Sets the function that gets all lines, before other threads log. With NULL, as at first, errors and infos go to
 * standard error, and debug lines nowhere.
 */
void log_set_sink(log_sink sink);

/*
 * Logs "mpi-wait: " and the message, cut at 1023 bytes. A byte of it that is no printable ASCII is written as \xNN; a
 * backslash stays as it is.
 */
__attribute__((format(printf, 2, 3))) void log_line(enum log_level level, const char *format, ...);

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_info(...)  log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)
