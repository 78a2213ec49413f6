/*
 * The instructions in loaded objects that are overwritten by UD2, so that they trap.
 */
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/emulate/emulate.h"

#define SITES_MAX 1024 /* each timed call has a RDTSC of its own */

static const uint8_t ud2[2] = {0x0f, 0x0b};

static struct site {
	const uint8_t *address;
	uint8_t bytes[2]; /* the bytes before patching */
} sites[SITES_MAX];
static size_t site_count;

static void patch(uint8_t *address)
{
	uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), page = (uintptr_t)address & ~(size - 1);
	size_t span = (uintptr_t)address + 2 - page;

	for (size_t i = 0; i < site_count; i++)
		if (sites[i].address == address)
			return;
	if (site_count == SITES_MAX || mprotect((void *)page, span, PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
		abort();
	sites[site_count].address = address;
	memcpy(sites[site_count].bytes, address, 2);
	__atomic_store_n(&site_count, site_count + 1, __ATOMIC_RELEASE);
	memcpy(address, ud2, 2);
	mprotect((void *)page, span, PROT_READ | PROT_EXEC);
}

/* Patches an object named PATH/NAME if the list has NAME:HEX,HEX. The loader gives the program no name: its own is
 * used. */
static int object_patch(struct dl_phdr_info *object, size_t size, void *list)
{
	const char *path = object->dlpi_name[0] ? object->dlpi_name : program_invocation_name;
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t length = strlen(name);

	(void)size;
	for (const char *at = list; at; at = strchr(at, ';')) {
		at += *at == ';';
		if (strncmp(at, name, length) != 0 || at[length] != ':')
			continue;
		for (at += length; *at == ':' || *at == ',';) {
			char *end;

			patch((uint8_t *)object->dlpi_addr + strtoul(at + 1, &end, 16));
			at = end;
		}
	}
	return 0;
}

void sites_patch(void)
{
	const char *list = getenv("EMULATE_SITES");

	if (list && *list)
		dl_iterate_phdr(object_patch, (void *)(uintptr_t)list);
}

void sites_read(const uint8_t *address, uint8_t ret_bytes[8])
{
	memcpy(ret_bytes, address, 8);
	for (size_t i = 0; i < __atomic_load_n(&site_count, __ATOMIC_ACQUIRE); i++)
		if (sites[i].address == address)
			memcpy(ret_bytes, sites[i].bytes, 2);
}
