/* Attributes of variables: they free memory and close descriptors and directories when the variable's scope ends. */
#pragma once

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free_pointer(void *pointer)
{
	free(*(void **)pointer);
}

static inline void cleanup_close_descriptor(const int *descriptor)
{
	if (*descriptor >= 0)
		close(*descriptor);
}

static inline void cleanup_close_directory(DIR **directory)
{
	if (*directory)
		closedir(*directory);
}

#define cleanup_free     __attribute__((cleanup(cleanup_free_pointer)))
#define cleanup_close    __attribute__((cleanup(cleanup_close_descriptor)))
#define cleanup_closedir __attribute__((cleanup(cleanup_close_directory)))

/* take_descriptor and take_pointer return what the variable owns, for the caller to own, and leave -1 or NULL there. */
static inline int take_descriptor(int *descriptor)
{
	int taken = *descriptor;

	*descriptor = -1;
	return taken;
}

#define take_pointer(pointer)                           \
	({                                              \
		__typeof__(pointer) taken_ = (pointer); \
		(pointer) = NULL;                       \
		taken_;                                 \
	})
