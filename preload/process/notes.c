/* Writes notes to root. Contract: process/notes.h. */
#include "preload/process/notes.h"

#include <errno.h>
#include <sys/shm.h>

/* Returns the step's page, which the caller detaches; NULL if it cannot be reached. */
static struct mpiwait_notes *page_attach(const struct config *config)
{
	struct mpiwait_notes *page = config->notes_id < 0 ? (void *)-1 : shmat(config->notes_id, NULL, 0);

	if (page == (void *)-1)
		return NULL;
	if (page->magic == MPIWAIT_NOTES_MAGIC && page->key == config->notes_key)
		return page;
	shmdt(page);
	return NULL;
}

void notes_add(const struct config *config, enum mpiwait_note note)
{
	int saved = errno;
	struct mpiwait_notes *page = page_attach(config);

	if (page) {
		__atomic_fetch_add(&page->count[note], 1, __ATOMIC_RELAXED);
		shmdt(page);
	}
	errno = saved;
}

void notes_add_off(const struct config *config)
{
	int saved = errno;
	struct mpiwait_notes *page = page_attach(config);

	if (page) {
		__atomic_fetch_add(&page->off[config->program - 1], 1, __ATOMIC_RELAXED);
		shmdt(page);
	}
	errno = saved;
}
