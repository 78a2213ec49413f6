/*
 * The file system as a step's tasks see it: what job_container/tmpfs, or a plugin like it, has put in place of /tmp for
 * them, and not for slurmstepd. The tasks are gone when the step ends, so slurmstepd opens the mount namespace of the
 * first one's child while that one stands still: Slurm has put it where it belongs, and it has run no user's code yet.
 *
 * Nothing is sent: a thread of slurmstepd's looks in /proc, on a page that the children inherit stands which child
 * waits, and the child waits for a second at most.
 */
#pragma once

struct view;

/* In slurmstepd, before the tasks are forked. Returns NULL where there is no memory or no thread: then there is none.
 */
struct view *view_prepare(void);

/* In a task's child, as root, once Slurm has put it where it belongs. view may be NULL. */
void view_show(struct view *view);

/* In a task, in its working directory, as the user: notes which that is. view may be NULL. */
void view_note_directory(struct view *view);

/*
 * In slurmstepd, or a child of its, when the tasks have ended. Returns a descriptor of the tasks' mount namespace, the
 * caller's to close; -1: none was seen, it is the caller's own, which to enter leads out of a chroot in which slurmd
 * may run, or it is not of slurmstepd's own user namespace, so that who made it could have put anything there.
 */
int view_open(const struct view *view);

/* In slurmstepd, when the tasks have ended: the first one's directory, "" if it is not known. */
const char *view_directory(const struct view *view);

/* view may be NULL. */
void view_end(struct view *view);
