/*
 * A tool on top of GOTCHA: counts the calls of MPI_Init, MPI_Barrier and MPI_Finalize, and prints the counts at the
 * end.
 */
#include <gotcha/gotcha.h>
#include <stdio.h>

static gotcha_wrappee_handle_t init, barrier, finalize;
static int calls[3];

static int init_count(void *argc, void *argv)
{
	calls[0]++;
	return ((int (*)(void *, void *))gotcha_get_wrappee(init))(argc, argv);
}

static int barrier_count(void *comm)
{
	calls[1]++;
	return ((int (*)(void *))gotcha_get_wrappee(barrier))(comm);
}

static int finalize_count(void)
{
	calls[2]++;
	return ((int (*)(void))gotcha_get_wrappee(finalize))();
}

static struct gotcha_binding_t bindings[] = {
        {"MPI_Init", (void *)init_count, &init},
        {"MPI_Barrier", (void *)barrier_count, &barrier},
        {"MPI_Finalize", (void *)finalize_count, &finalize},
};

static void __attribute__((constructor)) start(void)
{
	gotcha_wrap(bindings, 3, "tool");
}

static void __attribute__((destructor)) stop(void)
{
	if (calls[0] > 0)
		fprintf(stderr, "gotcha Init %d Barrier %d Finalize %d\n", calls[0], calls[1], calls[2]);
}
