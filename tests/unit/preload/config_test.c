/*
 * MPI_WAIT_CONFIG: what is good is read exactly, what is not wholly understood is refused and leaves the result alone.
 */
#include "preload/process/config.h"

#include <errno.h>
#include <string.h>

#include "tests/lib/check.h"

#include "preload/contract/stats.h"

#define SECTION    "|v=1;rungs=none"
#define SECTIONS_4 SECTION SECTION SECTION SECTION
#define SECTIONS   SECTIONS_4 SECTIONS_4 SECTIONS_4 SECTION SECTION SECTION

static const char *const bad[] = {
        "",
        "v",
        "v=",
        "v=1",
        "v=2;rungs=nap",
        "v=01;rungs=nap",
        "rungs=nap;v=1",
        "rungs=nap",
        "v=1;v=1;rungs=nap",
        "v=1;rungs=",
        "v=1;rungs=nap+",
        "v=1;rungs=+nap",
        "v=1;rungs=nap+nap",
        "v=1;rungs=doze",
        "v=1;rungs=none+nap",
        "v=1;rungs=nap;spin_ns=",
        "v=1;rungs=nap;spin_ns=-1",
        "v=1;rungs=nap;spin_ns=+1",
        "v=1;rungs=nap;spin_ns= 1",
        "v=1;rungs=nap;spin_ns=1x",
        "v=1;rungs=nap;spin_ns=3600000000001",
        "v=1;rungs=nap;spin_ns=99999999999999999999999",
        "v=1;rungs=nap;relative_ppm=1000001",
        "v=1;rungs=nap;shared=2",
        "v=1;rungs=nap;profile=yes",
        "v=1;rungs=nap;ibarrier=2",
        "v=1;rungs=nap;sites=2",
        "v=1;rungs=nap;path=2",
        "v=1;rungs=nap;colour=blue",
        "v=1;rungs=nap;tsc_khz=100000001",
        "v=1;rungs=nap;umwait_max_ns=",
        "v=1;rungs=nap;umwait_c02=2",
        "v=1;rungs=nap;;spin_ns=1",
        "v=1;rungs=nap;segment=210",
        "v=1;rungs=nap;segment=210:1",
        "v=1;rungs=nap;segment=210:1:",
        "v=1;rungs=nap;segment=210:1:2:3",
        "v=1;rungs=nap;segment=3000000000:1:2",
        "v=1;rungs=nap;task=5",
        "v=1;rungs=nap;near=",
        "v=1;rungs=nap;near=8",
        "v=1;rungs=nap;near=8:1",
        "v=1;rungs=nap;near=8:1:",
        "v=1;rungs=nap;near=0:0:0",
        "v=1;rungs=nap;near=16777217:1:1",
        "v=1;rungs=nap;near=8:8:1",
        "v=1;rungs=nap;near=8:1:8",
        "v=1;rungs=nap;near=8:1:0-8",
        "v=1;rungs=nap;near=8:1:3-1",
        "v=1;rungs=nap;near=8:1:1-",
        "v=1;rungs=nap;near=8:1:1,",
        "v=1;rungs=nap;near=8:1:,1",
        "v=1;rungs=nap;near=8:1:1,,2",
        "v=1;rungs=nap;near=8:1:1-2-3",
        "v=1;rungs=nap;near=8:1:1:2",
        "v=1;rungs=pstate;pstate_after_ns=-1",
        "v=1;rungs=pstate;pstate_after_ns=3600000000001",
        "v=1;rungs=pstate;cpufreq=",
        "v=1;rungs=pstate;cpufreq=lease",
        "v=1;rungs=pstate;cpufreq=lease:200:1",
        "v=1;rungs=pstate;cpufreq=lease:200:1:",
        "v=1;rungs=pstate;cpufreq=lease:200:1:2:",
        "v=1;rungs=pstate;cpufreq=lease:200:1:2:3",
        "v=1;rungs=pstate;cpufreq=lease:x:1:2",
        "v=1;rungs=pstate;cpufreq=lease:3000000000:1:2",
        "v=1;rungs=pstate;cpufreq=loan:200:1:2",
        "v=1;rungs=pstate;cpufreq=fd:200:1:2:3:4:1:2",
        "v=1;rungs=pstate;cpufreq=file:scaling_max_freq:1:2",
        "v=1;rungs=pstate;cpufreq=lease:200:1:2;cpufreq=lease:200:1:2",
        "v=1;rungs=nap;notes=7",
        "v=1;rungs=nap;notes=7:",
        "v=1;rungs=nap;notes=7:8:9",
        "v=1;rungs=nap;notes=3000000000:8",
        "v=1;rungs=nap;segment=210:1:2;task=0",
        "v=1;rungs=nap;segment=210:1:2;task=x",
        "v=1;rungs=nap;off=2",
        "v=1;rungs=nap|",
        "v=1;rungs=nap||",
        "v=1;rungs=nap|wrf.exe:1",
        "v=1;rungs=nap|wrf.exe:0",
        "v=1;rungs=nap|v=1;rungs=none|",
        "v=1;rungs=nap|v=1;rungs=none|wrf.exe",
        "v=1;rungs=nap|v=1;rungs=none|wrf.exe:",
        "v=1;rungs=nap|v=1;rungs=none|wrf.exe:0",
        "v=1;rungs=nap|v=1;rungs=none|wrf.exe:2",
        "v=1;rungs=nap|v=1;rungs=none|wrf.exe:1,",
        "v=1;rungs=nap|v=1;rungs=none|,wrf.exe:1",
        "v=1;rungs=nap|v=1;rungs=none|:1",
        "v=1;rungs=nap|v=1;rungs=none|wrf.exe:1:1",
        "v=1;rungs=nap|v=1;rungs=none|wrf.exe:x",
        "v=1;rungs=nap|v=1;rungs=none|other:1|wrf.exe:1",
        "v=1;rungs=nap|v=1;rungs=doze|wrf.exe:1",
        "v=1;rungs=nap|v=1;rungs=doze|other:1",
        "v=1;rungs=nap|rungs=none|wrf.exe:1",
        "v=1;rungs=nap|v=1;rungs=none;segment=210:1:2|wrf.exe:1",
        "v=1;rungs=nap|v=1;rungs=none;segment=210:1:2|other:1",
        "v=1;rungs=nap|v=1;rungs=none;task=7|wrf.exe:1",
        "v=1;rungs=nap|v=1;rungs=none;notes=7:8|wrf.exe:1",
        "v=1;rungs=nap|v=1;rungs=pstate;cpufreq=lease:200:1:2|wrf.exe:1",
        "v=1;rungs=nap|v=1;rungs=none;path=1|wrf.exe:1",
        "v=1;rungs=nap|v=1;rungs=none;near=8:1:1|wrf.exe:1",
        "v=1;rungs=nap|v=1;rungs=none|aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:1",
        "v=1;rungs=nap" SECTIONS_4 SECTIONS_4 SECTIONS_4 SECTIONS_4 "|v=1;rungs=none|wrf.exe:1",
        "|v=1;rungs=none|wrf.exe:1",
};

static void test_bad(void)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct config config, before;

		memset(&config, 0x5a, sizeof(config));
		memcpy(&before, &config, sizeof(config));
		EXPECT(config_parse(bad[i], "wrf.exe", &config) == -EINVAL, "\"%s\" was taken", bad[i]);
		EXPECT(memcmp(&before, &config, sizeof(config)) == 0, "\"%s\" changed the result", bad[i]);
	}
}

static void test_good(void)
{
	struct config config;

	EXPECT(config_parse(
	               "v=1;task=77;segment=210:12:345;shared=1;profile=0;rma_ns=10000;max_ns=100000;absolute_ns=7;"
	               "event_ns=5;"
	               "relative_ppm=62500;spin_ns=20000;rungs=pause+nap+umwait;tsc_khz=2600000;umwait_max_ns=38000;"
	               "umwait_c02=1;notes=7:9223372036854775807",
	               "", &config) == 0,
	       "refused");
	EXPECT(config.rungs == (1u << MPIWAIT_RUNG_PAUSE | 1u << MPIWAIT_RUNG_NAP | 1u << MPIWAIT_RUNG_UMWAIT),
	       "rungs");
	EXPECT(config.spin_ns == 20000 && config.relative_ppm == 62500 && config.absolute_ns == 7, "budget");
	EXPECT(config.max_ns == 100000 && config.rma_ns == 10000 && config.event_ns == 5, "caps");
	EXPECT(config.shared && !config.profile, "flags");
	EXPECT(config.tsc_khz == 2600000 && config.umwait_max_ns == 38000 && config.umwait_c02, "clock and limits");
	EXPECT(config.segment_fd == 210 && config.segment_dev == 12 && config.segment_ino == 345, "segment");
	EXPECT(config.task_pid == 77, "task");
	EXPECT(config.notes_id == 7 && config.notes_key == INT64_MAX, "notes");
	EXPECT(config_parse("v=1;rungs=none;", "", &config) == 0 && config.rungs == 0 && config.segment_fd == -1,
	       "none");
	EXPECT(config.notes_id == -1, "no notes");
	EXPECT(config.event_ns == 10000000 && !config.path, "default");
	EXPECT(config_parse("v=1;rungs=nap;path=1", "", &config) == 0 && config.path, "path");
}

/* The policies that a program may choose, and everything else from the fields before the first '|'. */
static void test_choices(void)
{
	static const char text[] =
	        "v=1;rungs=pause+nap;profile=1;segment=210:12:345;task=77;notes=7:8;path=1;near=8:1:1-2;"
	        "cpufreq=lease:200:1:2" SECTIONS "|v=1;rungs=pause+pstate;spin_ns=5;pstate_after_ns=9"
	        "|vasp_?:1,wrf*:16,wrf.exe:2,off:1";
	struct config config;

	EXPECT(config_parse(text, "wrf.exe", &config) == 0, "refused");
	EXPECT(config.program == 16 && config.spin_ns == 5 && config.pstate_after_ns == 9, "the first that matches");
	EXPECT(config.rungs == (1u << MPIWAIT_RUNG_PAUSE | 1u << MPIWAIT_RUNG_PSTATE) && !config.profile, "its fields");
	EXPECT(config.segment_fd == 210 && config.segment_dev == 12 && config.segment_ino == 345, "the task's segment");
	EXPECT(config.task_pid == 77 && config.notes_id == 7 && config.notes_key == 8 && config.path, "the task's");
	EXPECT(config.near.size == 8 && config.near.rank == 1 && config.near.ranges == 1, "near");
	EXPECT(config.cpufreq_fd == 200 && config.cpufreq_dev == 1 && config.cpufreq_ino == 2, "cpufreq");
	EXPECT(config_parse(text, "vasp_1", &config) == 0 && config.program == 1 && config.rungs == 0, "none");
	EXPECT(config_parse(text, "vasp_", &config) == 0 && config.program == 0 && config.profile, "the step's own");
	EXPECT(config_parse(text, "", &config) == 0 && config.program == 0 && config.task_pid == 77, "no name");
	EXPECT(config_parse("v=1;rungs=none;off=1|v=1;rungs=nap|a:1", "a", &config) == 0 && !config.off, "not off");
	EXPECT(config_parse("v=1;rungs=nap|v=1;rungs=none;off=1|a:1", "a", &config) == 0 && config.off, "off");
}

int main(void)
{
	test_choices();
	test_bad();
	test_good();
	return CHECK_RESULT;
}
