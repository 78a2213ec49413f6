/*
 * Runs ranks of one MPI_COMM_WORLD, or of several: worlds [spawn | session]
 *
 * spawn: rank 0 starts two more, in a world of their own. session: without MPI_COMM_WORLD, by MPI_Session_init, in an
 * MPI that has it.
 */
#include <mpi.h>
#include <string.h>

#if MPI_VERSION >= 4
static int session_play(void)
{
	MPI_Session session;
	MPI_Group group;
	MPI_Comm comm;

	MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
	MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
	MPI_Comm_create_from_group(group, "worlds", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
	MPI_Barrier(comm);
	MPI_Comm_free(&comm);
	MPI_Group_free(&group);
	return MPI_Session_finalize(&session);
}
#else
static int session_play(void)
{
	return 77;
}
#endif

int main(int argc, char **argv)
{
	MPI_Comm other = MPI_COMM_NULL;

	if (argc > 1 && strcmp(argv[1], "session") == 0)
		return session_play();
	MPI_Init(&argc, &argv);
	MPI_Comm_get_parent(&other);
	if (other == MPI_COMM_NULL && argc > 1)
		MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other,
		               MPI_ERRCODES_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
	if (other != MPI_COMM_NULL)
		MPI_Comm_disconnect(&other);
	return MPI_Finalize();
}
