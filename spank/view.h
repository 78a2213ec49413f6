/*
 * The file system as a step's tasks see it: what job_container/tmpfs, or a plugin like it, has put in place of /tmp for
 * them, and not for slurmstepd. A task's child, still root's and before any of the user's code, hands its mount
 * namespace to slurmstepd, which it would otherwise be gone for when the step ends.
 */
#ifndef MPIWAIT_SPANK_VIEW_H
#define MPIWAIT_SPANK_VIEW_H

struct view {
	int from; /* slurmstepd's end, -1: none */
	int to;   /* the children's */
};

#define VIEW_NONE ((struct view){-1, -1})

/* Before the tasks are forked. Without descriptors left there is none. */
void view_prepare(struct view *view);

/* In a task's child, as root, once Slurm has put it where it belongs. No end of it remains there. */
void view_send(struct view *view);

/* In slurmstepd. Returns a descriptor of the namespace that is the caller's to close, or -1: none came. */
int view_take(struct view *view);

void view_end(struct view *view);

#endif
