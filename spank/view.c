#include "spank/view.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "spank/cleanup.h"

#define NAMESPACE "/proc/self/ns/mnt"

/* Room for one descriptor beside one byte. */
struct letter {
	char byte;
	struct iovec part;
	_Alignas(struct cmsghdr) char rights[CMSG_SPACE(sizeof(int))];
	struct msghdr message;
};

static void letter_init(struct letter *letter)
{
	memset(letter, 0, sizeof(*letter));
	letter->part = (struct iovec){&letter->byte, 1};
	letter->message = (struct msghdr){
	        .msg_iov = &letter->part,
	        .msg_iovlen = 1,
	        .msg_control = letter->rights,
	        .msg_controllen = sizeof(letter->rights),
	};
}

void view_prepare(struct view *view)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return;
	view->from = ends[0];
	view->to = ends[1];
}

void view_send(struct view *view)
{
	cleanup_close int mounts = view->to < 0 ? -1 : open(NAMESPACE, O_RDONLY | O_CLOEXEC);
	struct letter letter;

	if (mounts >= 0) {
		letter_init(&letter);
		*CMSG_FIRSTHDR(&letter.message) = (struct cmsghdr){
		        .cmsg_level = SOL_SOCKET,
		        .cmsg_type = SCM_RIGHTS,
		        .cmsg_len = CMSG_LEN(sizeof(int)),
		};
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&letter.message)), &mounts, sizeof(int));
		(void)sendmsg(view->to, &letter.message, MSG_NOSIGNAL);
	}
	view_end(view);
}

int view_take(struct view *view)
{
	const struct cmsghdr *rights;
	struct letter letter;
	int mounts = -1;

	letter_init(&letter);
	if (view->from < 0 || recvmsg(view->from, &letter.message, MSG_CMSG_CLOEXEC) < 0)
		return -1;
	rights = CMSG_FIRSTHDR(&letter.message);
	if (rights && rights->cmsg_len == CMSG_LEN(sizeof(int)) && rights->cmsg_type == SCM_RIGHTS)
		memcpy(&mounts, CMSG_DATA(rights), sizeof(int));
	return mounts;
}

void view_end(struct view *view)
{
	if (view->from >= 0)
		close(view->from);
	if (view->to >= 0)
		close(view->to);
	*view = VIEW_NONE;
}
