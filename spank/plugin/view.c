#include "spank/plugin/view.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/nsfs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spank/base/cleanup.h"

/* What slurmstepd and the tasks share until their exec. */
struct page {
	_Atomic pid_t task; /* the one whose directory this is, 0: none came yet */
	char directory[PATH_MAX];
};

struct view {
	struct page *page;
	int from_child, to_stepd;
	int proc; /* the host's: what a child finds under that name may be a user's */
};

/* What goes with a message of one byte: one descriptor. */
union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

static struct msghdr message_of(struct iovec *byte, union control *control)
{
	return (struct msghdr){
	        .msg_iov = byte, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(*control)};
}

struct view *view_prepare(void)
{
	struct view *view = malloc(sizeof(*view));
	void *page = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int ends[2];

	if (view && page != MAP_FAILED && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0) {
		*view = (struct view){page, ends[0], ends[1], open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC)};
		return view;
	}
	if (page != MAP_FAILED)
		munmap(page, sizeof(struct page));
	free(view);
	return NULL;
}

void view_show(struct view *view)
{
	cleanup_close int mounts = view ? openat(view->proc, "self/ns/mnt", O_RDONLY | O_CLOEXEC) : -1;
	union control control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec byte = {"", 1};
	struct msghdr message = message_of(&byte, &control);

	if (!view)
		return;
	memcpy(CMSG_DATA(&control.head), &mounts, sizeof(int));
	if (mounts >= 0)
		sendmsg(view->to_stepd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	/* For every process that has an end: what a task sent when it is the user's could be anything. */
	shutdown(view->to_stepd, SHUT_RDWR);
}

void view_note_directory(struct view *view)
{
	pid_t none = 0;

	if (!view || !atomic_compare_exchange_strong(&view->page->task, &none, getpid()))
		return;
	if (!getcwd(view->page->directory, sizeof(view->page->directory)))
		view->page->directory[0] = '\0';
}

/* The message stays: under contain_spank this is a child that ends at once. */
static int mounts_look(const struct view *view)
{
	union control control = {.head = {.cmsg_len = 0}};
	char received;
	struct iovec byte = {&received, 1};
	struct msghdr message = message_of(&byte, &control);
	int mounts = -1;

	if (recvmsg(view->from_child, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) == 1 &&
	    control.head.cmsg_len == CMSG_LEN(sizeof(int)) && control.head.cmsg_type == SCM_RIGHTS)
		memcpy(&mounts, CMSG_DATA(&control.head), sizeof(int));
	return mounts;
}

static bool is_ours(int namespace, const char *ours)
{
	struct stat is, own;

	return namespace >= 0 && fstat(namespace, &is) == 0 && stat(ours, &own) == 0 && is.st_dev == own.st_dev &&
	       is.st_ino == own.st_ino;
}

int view_open(const struct view *view)
{
	cleanup_close int mounts = view ? mounts_look(view) : -1;
	cleanup_close int owner = mounts < 0 ? -1 : ioctl(mounts, NS_GET_USERNS);

	/* A namespace that a user has made belongs to a user namespace of theirs: they decide what is mounted there. */
	if (!is_ours(owner, "/proc/self/ns/user") || is_ours(mounts, "/proc/self/ns/mnt"))
		return -1;
	return take_descriptor(&mounts);
}

const char *view_directory(const struct view *view)
{
	return view && view->page->directory[0] == '/' ? view->page->directory : "";
}

void view_end(struct view *view)
{
	if (!view)
		return;
	close(view->from_child);
	close(view->to_stepd);
	if (view->proc >= 0)
		close(view->proc);
	munmap(view->page, sizeof(struct page));
	free(view);
}
