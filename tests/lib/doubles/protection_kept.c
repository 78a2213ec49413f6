/* Preloaded: a system that lets no page become writable again. */
#include <errno.h>
#include <stddef.h>

int mprotect(void *address, size_t size, int protection);
int mprotect(void *address, size_t size, int protection)
{
	(void)address, (void)size, (void)protection;
	errno = EACCES;
	return -1;
}
