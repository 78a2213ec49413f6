/*
 * The file system as a step's tasks see it: what job_container/tmpfs, or a plugin like it, has put in place of /tmp for
 * them, and not for slurmstepd. The tasks are gone when the step ends, so the first one's child sends its mount
 * namespace: Slurm has put it where it belongs by then, and it has run no user's code yet.
 *
 * A descriptor of a user's can make slurmstepd wait for ever, so none ever comes: the child is root's when it sends, it
 * ends all sending at once, and both ends are closed by an exec.
 */
#pragma once

struct view;

/* In slurmstepd, before the tasks are forked. Returns NULL where that cannot be had: then there is none. */
struct view *view_prepare(void);

/* In a task's child, as root, once Slurm has put it where it belongs. view may be NULL. */
void view_show(struct view *view);

/* In a task, in its working directory, as the user: notes which that is. view may be NULL. */
void view_note_directory(struct view *view);

/*
 * In slurmstepd, or a child of its, when the tasks have ended. Returns a descriptor of the tasks' mount namespace, the
 * caller's to close; -1: none came, it is the caller's own, which to enter leads out of a chroot in which slurmd may
 * run, or it is not of slurmstepd's own user namespace, so that who made it could have put anything there.
 */
int view_open(const struct view *view);

/* In slurmstepd, when the tasks have ended: the first one's directory, "" if it is not known. */
const char *view_directory(const struct view *view);

/* view may be NULL. */
void view_end(struct view *view);
