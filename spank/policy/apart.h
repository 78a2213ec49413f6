/*
 * Reads files of the site's by another process, for callers that must not wait for a file server. That process is given
 * two seconds.
 */
#pragma once

#include <stddef.h>

/* Reads `path` into *found, which is zeroed. Runs in the reading process. */
typedef void (*apart_reader)(const char *path, void *found);

/*
 * Runs the reader and waits for it. Returns memory of `size` bytes that the reader has filled and that the caller gives
 * to munmap, or NULL with errno: ETIMEDOUT, EIO if the process died, or another one if it could not be started.
 */
void *apart_read(const char *path, apart_reader reader, size_t size);
