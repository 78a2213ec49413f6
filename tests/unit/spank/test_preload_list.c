/* LD_PRELOAD as a list: where our library goes, and what is left when it is taken away. */
#include "spank/policy/preload_list.h"

#include <stdlib.h>

#include "tests/lib/check.h"

#define OURS "/usr/lib/mpi-wait/libmpiwait.so"

static const struct {
	const char *list, *added;
} added[] = {
        {"", OURS},
        {" : ", OURS},
        {"libother.so", OURS ":libother.so"},
        {"libother.so /x/libthird.so", OURS ":libother.so /x/libthird.so"},
        {"libasan.so", "libasan.so:" OURS},
        {"/usr/lib/gcc/x86_64-linux-gnu/12/libasan.so.8", "/usr/lib/gcc/x86_64-linux-gnu/12/libasan.so.8:" OURS},
        {"libasan.so.8:libother.so", "libasan.so.8:" OURS ":libother.so"},
        {"libasan.so.8 libother.so", "libasan.so.8:" OURS ":libother.so"},
        {"libother.so:libtsan.so.2:libthird.so:", "libother.so:libtsan.so.2:" OURS ":libthird.so:"},
        {"libasan.so:libubsan.so:liblsan.so:libhwasan.so:x.so",
         "libasan.so:libubsan.so:liblsan.so:libhwasan.so:" OURS ":x.so"},
        {"/l/libclang_rt.asan-x86_64.so", "/l/libclang_rt.asan-x86_64.so:" OURS},
        {"/libasan.so.d/libother.so", OURS ":/libasan.so.d/libother.so"},
        {"/x/notlibasan.so", OURS ":/x/notlibasan.so"},
        {"libjemalloc.so.2", OURS ":libjemalloc.so.2"},
};

static const struct {
	const char *list, *left;
} stripped[] = {
        {"", ""},
        {OURS, ""},
        {"libmpiwait.so", ""},
        {"libasan.so:" OURS ":libother.so", "libasan.so:libother.so"},
        {"libfirst.so /a/libmpiwait.so:libother.so", "libfirst.so:libother.so"},
        {"libnotmpiwait.so", "libnotmpiwait.so"},
        {"/a/libmpiwait.so.bak x.so", "/a/libmpiwait.so.bak x.so"},
        {"/libmpiwait.so/other.so", "/libmpiwait.so/other.so"},
        {PRELOAD_BY_DESCRIPTOR "230 x.so", "x.so"},
        {"x.so " PRELOAD_BY_DESCRIPTOR "230", "x.so"},
        {"a b:c", "a b:c"},
        {"/proc/4711/fd/230:x.so", "x.so"},
        {"/proc/fd/230:/proc/4711/root/x.so", "/proc/fd/230:/proc/4711/root/x.so"},
};

static void adds(void)
{
	for (size_t i = 0; i < sizeof(added) / sizeof(added[0]); i++) {
		char *list = preload_list_add(added[i].list, OURS);

		EXPECT(list && strcmp(list, added[i].added) == 0, "'%s' became '%s'", added[i].list, list);
		free(list);
	}
}

static void strips(void)
{
	for (size_t i = 0; i < sizeof(stripped) / sizeof(stripped[0]); i++) {
		char list[128];

		snprintf(list, sizeof(list), "%s", stripped[i].list);
		preload_list_strip(list);
		EXPECT(strcmp(list, stripped[i].left) == 0, "'%s' became '%s'", stripped[i].list, list);
	}
}

int main(void)
{
	adds();
	strips();
	return CHECK_RESULT;
}
