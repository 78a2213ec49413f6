#include "spank/plugin/view.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/nsfs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "spank/base/cleanup.h"
#include "spank/base/thread.h"

#define SHOW_MOST_MS  1000
#define LOOK_AGAIN_NS 1000000

/* Each is reached once, in this order or leaving some out. */
enum stage { STAGE_NONE, STAGE_SHOWN, STAGE_TAKEN, STAGE_OVER };

/* What slurmstepd and the children share. */
struct page {
	_Atomic uint32_t stage;
	_Atomic pid_t child; /* the one that stands still, 0: none came yet */
	_Atomic pid_t task;  /* the one whose directory this is */
	char directory[PATH_MAX];
};

struct view {
	struct page *page;
	pthread_t thread;
	int mounts; /* with STAGE_TAKEN; -1: it could not be opened */
};

/* Raw: the page is shared between processes, so the wait is no private one. */
static void stage_wait(struct page *page, enum stage stage, const struct timespec *most)
{
	syscall(SYS_futex, &page->stage, FUTEX_WAIT, stage, most, NULL, 0);
}

static bool stage_change(struct page *page, uint32_t from, enum stage to)
{
	bool changed = atomic_compare_exchange_strong(&page->stage, &from, to);

	syscall(SYS_futex, &page->stage, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	return changed;
}

/*
 * slurmstepd has the user's effective identity while it forks the tasks, in all of its threads; this one takes root's
 * back for itself, by the system call, because glibc's function would take it back for all.
 */
static int namespace_open(const struct page *page)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)page->child);
	(void)syscall(SYS_setresuid, -1, 0, -1);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void *watch(void *context)
{
	const struct timespec again = {.tv_nsec = LOOK_AGAIN_NS};
	struct view *view = context;
	struct page *page = view->page;

	while (page->stage == STAGE_NONE)
		stage_wait(page, STAGE_NONE, NULL);
	while (page->stage == STAGE_SHOWN && (view->mounts = namespace_open(page)) < 0)
		nanosleep(&again, NULL);
	/* What was opened while the child stood still is the child's; later it could be anybody's. */
	stage_change(page, STAGE_SHOWN, STAGE_TAKEN);
	return NULL;
}

struct view *view_prepare(void)
{
	struct view *view = malloc(sizeof(*view));
	void *page = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (view && page != MAP_FAILED) {
		*view = (struct view){.page = page, .mounts = -1};
		if (thread_start(&view->thread, watch, view) == 0)
			return view;
	}
	if (page != MAP_FAILED)
		munmap(page, sizeof(struct page));
	free(view);
	return NULL;
}

void view_show(struct view *view)
{
	struct timespec most = {.tv_sec = SHOW_MOST_MS / 1000, .tv_nsec = SHOW_MOST_MS % 1000 * 1000000};
	pid_t none = 0;

	if (!view || !atomic_compare_exchange_strong(&view->page->child, &none, getpid()) ||
	    !stage_change(view->page, STAGE_NONE, STAGE_SHOWN))
		return;
	stage_wait(view->page, STAGE_SHOWN, &most);
	stage_change(view->page, STAGE_SHOWN, STAGE_OVER);
}

void view_note_directory(struct view *view)
{
	pid_t none = 0;

	if (!view || !atomic_compare_exchange_strong(&view->page->task, &none, getpid()))
		return;
	if (!getcwd(view->page->directory, sizeof(view->page->directory)))
		view->page->directory[0] = '\0';
}

/* The thread looks no more. What it has found stays. */
static void watch_end(const struct view *view)
{
	stage_change(view->page, STAGE_NONE, STAGE_OVER);
	stage_change(view->page, STAGE_SHOWN, STAGE_OVER);
}

static bool is_ours(int namespace, const char *ours)
{
	struct stat is, own;

	return namespace >= 0 && fstat(namespace, &is) == 0 && stat(ours, &own) == 0 && is.st_dev == own.st_dev &&
	       is.st_ino == own.st_ino;
}

int view_open(const struct view *view)
{
	cleanup_close int owner = -1;

	if (!view)
		return -1;
	watch_end(view);
	if (view->page->stage != STAGE_TAKEN)
		return -1;
	owner = ioctl(view->mounts, NS_GET_USERNS);
	/* A namespace that a user has made belongs to a user namespace of theirs: they decide what is mounted there. */
	if (!is_ours(owner, "/proc/self/ns/user") || is_ours(view->mounts, "/proc/self/ns/mnt"))
		return -1;
	return fcntl(view->mounts, F_DUPFD_CLOEXEC, 3);
}

const char *view_directory(const struct view *view)
{
	return view && view->page->directory[0] == '/' ? view->page->directory : "";
}

void view_end(struct view *view)
{
	if (!view)
		return;
	watch_end(view);
	pthread_join(view->thread, NULL);
	if (view->mounts >= 0)
		close(view->mounts);
	munmap(view->page, sizeof(struct page));
	free(view);
}
