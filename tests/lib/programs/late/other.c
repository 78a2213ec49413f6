/*
 * Windows, files, and processes that start others.
 */
#include "late.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static MPI_Win window = MPI_WIN_NULL;
static double shown[COUNT]; /* memory that the other rank may access */
static MPI_File file;
static char path[256];

static void window_prepare(void)
{
	if (window == MPI_WIN_NULL)
		MPI_Win_create(shown, sizeof(shown), sizeof(double), MPI_INFO_NULL, WORLD, &window);
}

/* Rank 0 puts its numbers into rank 1's window late; rank 1's fence waits for that. */
static void fence_prepare(void)
{
	window_prepare();
	MPI_Win_fence(0, window);
}

static void fence_call(void)
{
	if (rank == 0)
		MPI_Put(mine, COUNT, MPI_DOUBLE, 1, 0, COUNT, MPI_DOUBLE, window);
	MPI_Win_fence(0, window);
}

static void shown_release(void)
{
	memcpy(theirs, shown, sizeof(shown));
}

/* Rank 0 holds the lock of its own window, and changes it late. Some libraries take the lock only at Unlock. */
static void lock_prepare(void)
{
	window_prepare();
	if (rank == 0)
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
}

static void lock_call(void)
{
	if (rank == 0) {
		MPI_Put(mine, COUNT, MPI_DOUBLE, 0, 0, COUNT, MPI_DOUBLE, window);
		MPI_Win_unlock(0, window);
		return;
	}
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
	MPI_Get(theirs, COUNT, MPI_DOUBLE, 0, 0, COUNT, MPI_DOUBLE, window);
	MPI_Win_unlock(0, window);
}

/* Rank 0 would otherwise take the lock again before rank 1 had seen it free. */
static void lock_release(void)
{
	MPI_Barrier(WORLD);
}

/* Rank 1 exposes its window; rank 0's access epoch ends late. */
static void post_prepare(void)
{
	MPI_Group world, other;
	int partner = 1 - rank;

	window_prepare();
	MPI_Comm_group(WORLD, &world);
	MPI_Group_incl(world, 1, &partner, &other);
	if (rank == 0)
		MPI_Win_start(other, 0, window);
	else
		MPI_Win_post(other, 0, window);
	MPI_Group_free(&other);
	MPI_Group_free(&world);
}

static void post_call(void)
{
	if (rank == 1) {
		MPI_Win_wait(window);
		return;
	}
	MPI_Put(mine, COUNT, MPI_DOUBLE, 1, 0, COUNT, MPI_DOUBLE, window);
	MPI_Win_complete(window);
}

static void file_prepare(void)
{
	const char *folder = getenv("LATE_FOLDER");

	snprintf(path, sizeof(path), "%s/late.%d", folder ? folder : "/tmp", rank == 0 ? (int)getpid() : 0);
	MPI_Bcast(path, sizeof(path), MPI_CHAR, 0, WORLD);
}

static void file_open_call(void)
{
	MPI_File_open(WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
}

static void file_release(void)
{
	MPI_File_close(&file);
	if (rank == 0)
		unlink(path);
	MPI_Barrier(WORLD);
}

static void opened_prepare(void)
{
	file_prepare();
	file_open_call();
	MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL);
}

static void sync_call(void)
{
	MPI_File_sync(file);
}

static void write_call(void)
{
	MPI_File_write_at_all(file, rank * COUNT, mine, COUNT, MPI_DOUBLE, MPI_STATUS_IGNORE);
}

static void ordered_call(void)
{
	MPI_File_write_ordered(file, mine, COUNT, MPI_DOUBLE, MPI_STATUS_IGNORE);
}

static void write_release(void)
{
	MPI_File_sync(file);
	MPI_Barrier(WORLD);
	MPI_File_sync(file);
	MPI_File_read_at_all(file, 0, theirs, 2 * COUNT, MPI_DOUBLE, MPI_STATUS_IGNORE);
	file_release();
}

void other_clean(void)
{
	if (window != MPI_WIN_NULL)
		MPI_Win_free(&window);
}

const struct cell cells_other[] = {
        {"Win_fence", fence_prepare, fence_call, shown_release},
        {"Win_lock", lock_prepare, lock_call, lock_release},
        {"Win_wait", post_prepare, post_call, shown_release},
        {"File_open", file_prepare, file_open_call, file_release},
        {"File_sync", opened_prepare, sync_call, file_release},
        {"File_write_ordered", opened_prepare, ordered_call, write_release},
        {"File_write_at_all", opened_prepare, write_call, write_release},
        {NULL, NULL, NULL, NULL},
};

static MPI_Comm children;

static void spawn_call(void)
{
	MPI_Comm_spawn(getenv("LATE_PROGRAM"), MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, WORLD, &children,
	               MPI_ERRCODES_IGNORE);
}

static void spawn_release(void)
{
	double token = rank + 1;

	MPI_Bcast(&token, 1, MPI_DOUBLE, 0, children);
	theirs[0] = token;
	MPI_Comm_disconnect(&children);
}

const struct cell cell_spawn = {"Comm_spawn", NULL, spawn_call, spawn_release};

void spawn_child(MPI_Comm parents)
{
	double token = 4711;

	MPI_Bcast(&token, 1, MPI_DOUBLE, MPI_ROOT, parents);
	MPI_Comm_disconnect(&parents);
	MPI_Finalize();
	exit(0);
}
