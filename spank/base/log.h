/*
 * Log lines, each beginning with "mpi-wait: ".
 *
 * The same modules run inside Slurm's daemons and in mpi-wait-node; whoever is main says once where lines go.
 */
#ifndef MPIWAIT_SPANK_BASE_LOG_H
#define MPIWAIT_SPANK_BASE_LOG_H

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Receives one whole line without newline. */
typedef void (*log_sink)(enum log_level level, const char *line);

/* Without a sink, errors and infos go to standard error. */
void log_set_sink(log_sink sink);

__attribute__((format(printf, 1, 2))) void log_error(const char *format, ...);
__attribute__((format(printf, 1, 2))) void log_info(const char *format, ...);
__attribute__((format(printf, 1, 2))) void log_debug(const char *format, ...);

#endif
