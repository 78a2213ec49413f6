/* Cores that slurm.conf keeps from jobs: how a line names nodes, and which cores it means. */
#include "spank/machine/reserved.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/check.h"

static char directory[] = "/tmp/mpi-wait-reserved-XXXXXX";

static void names_a_node(void)
{
	static const struct {
		const char *list;
		const char *node;
		bool has;
	} cases[] = {
	        {"c1", "c1", true},
	        {"c1", "c11", false},
	        {"c11", "c1", false},
	        {"a,c1,b", "c1", true},
	        {"c[1-4]", "c4", true},
	        {"c[1-4]", "c5", false},
	        {"c[1-4]", "c01", false},
	        {"c[01-12]", "c07", true},
	        {"c[01-12]", "c7", false},
	        {"c[8-12]", "c10", true},
	        {"c[1,3,5-6]", "c3", true},
	        {"c[1,3,5-6]", "c4", false},
	        {"r[0-1]n[1-2]", "r1n2", true},
	        {"r[0-1]n[1-2]x", "r1n2", false},
	        {"a[1-2],b[1-2]", "b2", true},
	        {"c[1-2", "c1", false},
	        {"c[]", "c", false},
	        {"", "c1", false},
	        {"c[18446744073709551615-99999999999999999999999]", "c1", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		EXPECT(reserved_names(cases[i].list, cases[i].node) == cases[i].has, "'%s' in '%s'", cases[i].node,
		       cases[i].list);
}

static void write_conf(const char *name, const char *text)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	CHECK(file && fputs(text, file) >= 0);
	if (file)
		fclose(file);
}

/* The cores that are kept back from a node of so many, as a list. */
static const char *kept(const char *text, const char *node, unsigned cores)
{
	static char list[256];
	hwloc_bitmap_t set = hwloc_bitmap_alloc();
	struct reserved reserved;
	char path[64];

	write_conf("slurm.conf", text);
	snprintf(path, sizeof(path), "%s/slurm.conf", directory);
	list[0] = '\0';
	if (!reserved_read(path, node, &reserved))
		strcpy(list, "unnamed");
	else if (set) {
		reserved_cores(&reserved, cores, set);
		hwloc_bitmap_list_snprintf(list, sizeof(list), set);
	}
	hwloc_bitmap_free(set);
	return list;
}

#define KEPT(text, cores, list)                                              \
	do {                                                                 \
		const char *found = kept(text, "c1", cores);                 \
		EXPECT(strcmp(found, list) == 0, "'%s': '%s'", text, found); \
	} while (0)

static void keeps_what_slurm_keeps(void)
{
	KEPT("ClusterName=x\nNodeName=c[1-2] Sockets=2 CoresPerSocket=4\n", 8, "");
	KEPT("NodeName=c2 CoreSpecCount=1\n", 8, "unnamed");
	KEPT("NodeName=c1 Sockets=2 CoresPerSocket=4 CoreSpecCount=1\n", 8, "7");
	KEPT("NodeName=c1 Sockets=2 CoresPerSocket=4 CoreSpecCount=3\n", 8, "3,6-7");
	KEPT("NodeName=c1 Sockets=2 CoresPerSocket=4 CoreSpecCount=3\n", 0, "");
	KEPT("SchedulerParameters=defer,spec_cores_first\nNodeName=c1 CoresPerSocket=4 CoreSpecCount=3\n", 8, "0-1,4");
	KEPT("nodename=c1 cpus=8 corespeccount=2\n", 8, "6-7");
	KEPT("NodeName=c1 CoresPerSocket=3 CoreSpecCount=2\n", 8, "6-7");
	KEPT("NodeName=c1 CoreSpecCount=8\n", 8, "");
	KEPT("NodeName=c1 CPUs=8 CpuSpecList=0,7 CoreSpecCount=1\n", 8, "0,7");
	KEPT("NodeName=c1 CoresPerSocket=4 ThreadsPerCore=2 CpuSpecList=0-1,7,900\n", 4, "0,3");
	KEPT("NodeName=c1 CPUs=4 CoresPerSocket=4 ThreadsPerCore=2 CpuSpecList=1-2\n", 4, "1-2");
	KEPT("NodeName=c1 MemSpecLimit=1024\n", 8, "");
}

static void reads_the_file_as_slurm_does(void)
{
	KEPT("NodeName=DEFAULT CoreSpecCount=2\nNodeName=c1 CPUs=8\nNodeName=DEFAULT CoreSpecCount=0\n", 8, "6-7");
	KEPT("NodeName=DEFAULT CoreSpecCount=2\nNodeName=c1 CPUs=8 CoreSpecCount=0\n", 8, "");
	KEPT("NodeName=c1 \\\n  CPUs=8 \\\nCoreSpecCount=1\n", 8, "7");
	KEPT("#NodeName=c1 CoreSpecCount=1\n  NodeName=c1 CPUs=8 # CoreSpecCount=1\n", 8, "");
	KEPT("NodeName=c1 CoreSpecCount=1\r\n", 8, "7");
	KEPT("NodeName=c1 CoreSpecCount=x CPUs\n", 8, "");
	write_conf("nodes.conf", "NodeName=c[1-9] CPUs=8 CoreSpecCount=1\n");
	KEPT("Include nodes.conf\n", 8, "7");
	KEPT("Include absent.conf\nInclude slurm.conf\nNodeName=c1 CoreSpecCount=1\n", 8, "7");
	KEPT("Includes nodes.conf\n", 8, "unnamed");
	KEPT("NodeName=\nNodeName\n\\\n", 8, "unnamed");
}

int main(void)
{
	char command[64];

	CHECK(mkdtemp(directory));
	names_a_node();
	keeps_what_slurm_keeps();
	reads_the_file_as_slurm_does();
	snprintf(command, sizeof(command), "rm -r %s", directory);
	CHECK(system(command) == 0);
	return CHECK_RESULT;
}
