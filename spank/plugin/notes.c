#include "spank/plugin/notes.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>
#include <sys/shm.h>

/* Fills the page and gives it to the user. Returns false with errno if that fails. */
static bool page_prepare(int id, struct mpiwait_notes *page, uint32_t uid, uint32_t gid)
{
	struct shmid_ds status;
	uint64_t key;

	if (getrandom(&key, sizeof(key), 0) != (ssize_t)sizeof(key) || shmctl(id, IPC_STAT, &status) < 0)
		return false;
	page->magic = MPIWAIT_NOTES_MAGIC;
	page->key = key >> 1; /* the configuration has room for 63 bits */
	status.shm_perm.uid = uid;
	status.shm_perm.gid = gid;
	status.shm_perm.mode = 0600;
	return shmctl(id, IPC_SET, &status) == 0;
}

int notes_begin(uint32_t uid, uint32_t gid, struct notes *ret_notes, struct error *error)
{
	struct notes notes = {.id = shmget(IPC_PRIVATE, sizeof(*notes.page), IPC_CREAT | 0600)};
	int problem;
	bool good;

	*ret_notes = (struct notes){.id = -1};
	if (notes.id < 0)
		return error_set(error, -errno, "processes without a slot are not counted: shmget: %s",
		                 strerror(errno));
	notes.page = shmat(notes.id, NULL, 0);
	good = notes.page != (void *)-1 && page_prepare(notes.id, notes.page, uid, gid);
	problem = errno;
	shmctl(notes.id, IPC_RMID, NULL);
	if (good) {
		*ret_notes = notes;
		return 0;
	}
	if (notes.page != (void *)-1)
		shmdt(notes.page);
	return error_set(error, -problem, "processes without a slot are not counted: %s", strerror(problem));
}

void notes_end(struct notes *notes)
{
	if (notes->id >= 0)
		shmdt(notes->page);
	*notes = (struct notes){.id = -1};
}
