/*
 * Log lines, each beginning with "mpi-wait: ".
 *
 * The same modules run inside Slurm's daemons and in mpi-wait-node; whoever is main says once where lines go.
 */
#pragma once

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Receives one whole line without newline: printable ASCII, any other byte of the message as \xNN. */
typedef void (*log_sink)(enum log_level level, const char *line);

/* Without a sink, errors and infos go to standard error. */
void log_set_sink(log_sink sink);

__attribute__((format(printf, 2, 3))) void log_line(enum log_level level, const char *format, ...);

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_info(...)  log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)
