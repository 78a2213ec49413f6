/*
 * A UCX whose workers promise to signal, and never do. It is preloaded in front of the real UCX, behind the library
 * under test.
 */
#include <sys/eventfd.h>

#define EXPORT __attribute__((visibility("default")))

int ucp_worker_get_efd(void *worker, int *ret_descriptor);
int ucp_worker_arm(void *worker);

EXPORT int ucp_worker_get_efd(void *worker, int *ret_descriptor)
{
	(void)worker;
	*ret_descriptor = eventfd(0, EFD_CLOEXEC);
	return 0;
}

EXPORT int ucp_worker_arm(void *worker)
{
	(void)worker;
	return 0;
}
