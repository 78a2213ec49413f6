/*
 * A program on top of the doubles of libfabric and of an MPI that calls back: fabric_driver COMPONENT SCENE. The table
 * at the end lists the scenes. Prints "key value" lines. The test reads the library's notes from the stats segment.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/doubles/fake_fabric.h"

#define POLLS   20000
#define QUEUES  8
#define TURNS   2000
#define MANY    600
#define THREADS 6
#define COUNTED 64

typedef uintptr_t word;

int MPI_Init_thread(int *, char ***, int, int *);
int MPI_Finalize(void);
int MPI_Recv(word, word, word, word, word, word, word);
int MPI_Test(word, word, word);
extern void (*fake_at_init)(void);

static const struct fake_entry *entry;
static struct fake_fabric *fake;
static struct fabric_object *fabric, *domain, *queue[MANY], *counter;

static void receive(void (*inside)(void))
{
	MPI_Recv((word)inside, 1, 3, 0, 5, 6, 7);
}

static struct fabric_object *opened(struct fabric_object *from, unsigned index)
{
	fabric_open_function *function = (fabric_open_function *)from->table[FABRIC_OWN]->function[index];
	struct fabric_object *object = NULL;
	int code = function(from, NULL, &object, &fake);

	if (code != 0 || !object || object->context != &fake)
		printf("opening %d\n", code);
	return object;
}

static int closed(struct fabric_object *object)
{
	return ((fabric_close_function *)object->table[FABRIC_COMMON]->function[FABRIC_CLOSE])(object);
}

static ssize_t queue_read(struct fabric_object *object)
{
	return ((fabric_read_function *)object->table[FABRIC_OWN]->function[FABRIC_READ])(object, NULL, 1);
}

static uint64_t counter_read(void)
{
	return ((fabric_count_function *)counter->table[FABRIC_OWN]->function[FABRIC_READ])(counter);
}

/* Returns true if the object's table is the library's. */
static bool is_watched(const struct fabric_object *object)
{
	Dl_info where;

	return dladdr(object->table[FABRIC_OWN], &where) && strstr(where.dli_fname, "libmpiwait");
}

static void open_all(void)
{
	entry->fabric(NULL, &fabric, NULL);
	domain = opened(fabric, FABRIC_DOMAIN);
	queue[0] = opened(domain, FABRIC_CQ_OPEN);
	counter = opened(domain, FABRIC_CNTR_OPEN);
}

static void start(void (*at_init)(void))
{
	int provided;

	fake_at_init = at_init;
	MPI_Init_thread(NULL, NULL, 3, &provided);
}

static void poll_queue(void)
{
	for (int i = 0; i < POLLS; i++)
		queue_read(queue[0]);
}

static void poll_from(void)
{
	fabric_readfrom_function *readfrom =
	        (fabric_readfrom_function *)queue[0]->table[FABRIC_OWN]->function[FABRIC_READFROM];
	uint64_t source = 0;

	for (int i = 0; i < POLLS; i++)
		readfrom(queue[0], NULL, 1, &source);
	printf("source %d\n", (int)source);
}

static void poll_counter(void)
{
	for (int i = 0; i < POLLS; i++)
		counter_read();
}

static void poll_moving(void)
{
	for (int i = 0; i < POLLS; i++) {
		fake->count++;
		if (counter_read() != fake->count)
			printf("count 0\n");
	}
}

static void inside(void (*poll)(void))
{
	start(open_all);
	errno = 4711;
	receive(poll);
	printf("errno %d\n", errno);
}

static void scene_poll(void)
{
	inside(poll_queue);
}

static void scene_readfrom(void)
{
	inside(poll_from);
}

static void scene_counter(void)
{
	inside(poll_counter);
}

static void scene_moving(void)
{
	inside(poll_moving);
}

static void scene_completions(void)
{
	fake->found = 1;
	inside(poll_queue);
}

static void scene_errors(void)
{
	fake->found = -259;
	inside(poll_queue);
}

static void scene_nothing(void)
{
	fake->found = 0;
	inside(poll_queue);
}

/* Uses libfabric outside of MPI, and MPI's calls that do not block. */
static void scene_outside(void)
{
	start(open_all);
	poll_queue();
	poll_counter();
	MPI_Test((word)poll_queue, 0, 0);
	printf("watched %d\n", is_watched(queue[0]));
}

static void scene_before(void)
{
	open_all();
	start(poll_queue);
	receive(poll_queue);
	printf("watched %d\n", is_watched(queue[0]));
}

static void bytes_set(size_t fabrics, size_t domains, size_t queues, size_t counters, size_t common)
{
	const size_t said[] = {fabrics, domains, queues, counters, common};

	memcpy(fake->said, said, sizeof(said));
}

static void bytes_print(const char *name, const struct fabric_object *object)
{
	const struct fabric_table *table = object->table[FABRIC_OWN];

	printf("%s_bytes %zu\n", name, table->bytes);
	printf("%s_last %d\n", name, ((int (*)(void))table->function[table->bytes / sizeof(fabric_operation *) - 2])());
}

static void all_print(void)
{
	bytes_print("fabric", fabric);
	bytes_print("domain", domain);
	bytes_print("queue", queue[0]);
	bytes_print("counter", counter);
	printf("watched %d\n", is_watched(fabric) + is_watched(domain) + is_watched(queue[0]) + is_watched(counter));
}

/* Opens objects with the larger tables of a later release. */
static void scene_longer(void)
{
	bytes_set(200, 200, 200, 200, 200);
	inside(poll_queue);
	all_print();
}

/* Opens objects with the tables of libfabric 1.0; the fabric has no domain2. */
static void scene_shorter(void)
{
	bytes_set(40, 72, 64, 48, 40);
	inside(poll_queue);
	all_print();
}

static void scene_too_long(void)
{
	bytes_set(0, 0, 208, 0, 0);
	inside(poll_queue);
	all_print();
}

static void scene_too_short(void)
{
	bytes_set(0, 0, 56, 0, 0);
	inside(poll_queue);
	printf("watched %d\n", is_watched(queue[0]));
}

static void open_jumping(void)
{
	entry->jump(NULL, &fabric, NULL);
	domain = opened(fabric, FABRIC_DOMAIN);
	queue[0] = opened(domain, FABRIC_CQ_OPEN);
}

static void scene_jump(void)
{
	start(open_jumping);
	receive(poll_queue);
}

static void open_newer(void)
{
	fabric_domain2_function *domain2;

	printf("refused %d\n", entry->fabric2(NULL, &fabric, 1, NULL));
	entry->fabric2(NULL, &fabric, 42, NULL);
	domain2 = (fabric_domain2_function *)fabric->table[FABRIC_OWN]->function[FABRIC_DOMAIN2];
	printf("code %d\n", domain2(fabric, NULL, &domain, 42, NULL));
	queue[0] = opened(domain, FABRIC_CQ_OPEN);
}

static void scene_newer(void)
{
	start(open_newer);
	receive(poll_queue);
	printf("watched %d\n", is_watched(queue[0]));
}

static void open_older(void)
{
	entry->older(NULL, &fabric, NULL);
	printf("older %ld\nwatched %d\n", fake->older, is_watched(fabric));
}

static void scene_older(void)
{
	start(open_older);
}

static void open_several(void)
{
	open_all();
	for (int i = 1; i < QUEUES; i++)
		queue[i] = opened(domain, FABRIC_CQ_OPEN);
}

static void poll_several(void)
{
	int right = 0;

	for (int i = 0; i < POLLS; i++) {
		queue_read(queue[i % QUEUES]);
		right += fake->last == queue[i % QUEUES];
	}
	printf("right %d\n", right == POLLS);
}

static void scene_several(void)
{
	start(open_several);
	receive(poll_several);
}

/* Reopens a queue at the same address. past: close it past its table. */
static void reopen(bool past)
{
	struct fabric_object *first;
	int same = 0, watched = 0;

	start(open_all);
	first = queue[0];
	for (int i = 0; i < TURNS; i++) {
		if ((past ? fake->close : closed)(queue[0]) != 0)
			printf("close 0\n");
		queue[0] = opened(domain, FABRIC_CQ_OPEN);
		same += queue[0] == first;
		watched += is_watched(queue[0]);
	}
	receive(poll_queue);
	printf("same %d\nwatched %d\nclosed %ld\n", same, watched, fake->closed);
}

static void scene_reopen(void)
{
	reopen(false);
}

static void scene_reopen_past(void)
{
	reopen(true);
}

static void scene_close(void)
{
	start(open_all);
	fake->refusal = -16;
	printf("refused %d\n", closed(queue[0]));
	receive(poll_queue);
	fake->refusal = 0;
	printf("closed %d\n", closed(queue[0]) + closed(counter) + closed(domain) + closed(fabric));
	printf("closings %ld\n", fake->closed);
}

static void open_many(void)
{
	open_all();
	for (int i = 1; i < MANY; i++)
		queue[i] = opened(domain, FABRIC_CQ_OPEN);
}

static void scene_many(void)
{
	int watched = 0;

	start(open_many);
	for (int i = 0; i < MANY; i++) {
		queue_read(queue[i]);
		watched += is_watched(queue[i]);
		closed(queue[i]);
	}
	queue[0] = opened(domain, FABRIC_CQ_OPEN);
	printf("watched %d\nagain %d\nreads %ld\n", watched, is_watched(queue[0]), fake->reads);
	receive(poll_queue);
}

/* Opens layers: a fabric inside a fabric, another inside a domain, and one that libfabric opens by itself. */
static void open_layers(void)
{
	fake->opens_inside = entry->fabric;
	entry->fabric(NULL, &fabric, NULL);
	printf("in_fabric %d\n", is_watched(fake->inside));
	fake->opens_inside = entry->fabric;
	domain = opened(fabric, FABRIC_DOMAIN);
	printf("in_domain %d\nown %d\n", is_watched(fake->inside), is_watched(fake->open()));
	printf("outer %d\n", is_watched(fabric) && is_watched(domain));
}

static void scene_layers(void)
{
	start(open_layers);
}

/* Opens the only fabric of a provider twice, as MPI does, and once as libfabric itself does, past the library. */
static void open_shared(void)
{
	struct fabric_object *again = NULL;

	fake->shares = true;
	entry->fabric(NULL, &fabric, NULL);
	entry->fabric(NULL, &again, NULL);
	printf("same %d\n", again == fabric && fake->open() == fabric);
	printf("closed %d\nwatched %d\n", closed(again), is_watched(fabric));
	domain = opened(fabric, FABRIC_DOMAIN);
	queue[0] = opened(domain, FABRIC_CQ_OPEN);
}

static void scene_shared(void)
{
	start(open_shared);
	receive(poll_queue);
	printf("closing %d\n", closed(fabric));
	printf("left %d\nopened %d\n", is_watched(fabric), is_watched(opened(fabric, FABRIC_DOMAIN)));
}

/* Switches a queue to another table of the provider, as a provider may do when an endpoint is enabled. */
static void open_chosen(void)
{
	open_all();
	closed(queue[0]);
	fake->lies_within = true;
	queue[0] = opened(domain, FABRIC_CQ_OPEN);
	queue[0]->table[FABRIC_OWN] = fake->table(FAKE_QUEUE);
}

static void scene_chosen(void)
{
	start(open_chosen);
	printf("watched %d\n", is_watched(queue[0]));
	receive(poll_queue);
}

static ssize_t read_elsewhere(struct fabric_object *object, void *buffer, size_t count)
{
	(void)object, (void)buffer, (void)count;
	return -11;
}

/* Switches a queue to a table that is neither the provider's nor the library's. */
static void open_foreign(void)
{
	static struct fabric_table foreign;

	open_all();
	foreign = *queue[0]->table[FABRIC_OWN];
	foreign.function[FABRIC_READ] = (fabric_operation *)read_elsewhere;
	queue[0]->table[FABRIC_OWN] = &foreign;
}

static void scene_foreign(void)
{
	start(open_foreign);
	printf("watched %d\n", is_watched(queue[0]));
	receive(poll_queue);
}

/* Puts a copy of one table into all queues, as a tool may. */
static void scene_copied(void)
{
	static struct fabric_table copy;

	start(open_several);
	copy = *queue[0]->table[FABRIC_OWN];
	for (int i = 0; i < QUEUES; i++)
		queue[i]->table[FABRIC_OWN] = &copy;
	receive(poll_several);
}

static void scene_fork(void)
{
	pid_t child;
	int status;

	start(open_all);
	receive(poll_queue);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		receive(poll_queue);
		closed(queue[0]);
		queue[0] = opened(domain, FABRIC_CQ_OPEN);
		poll_queue();
		_exit(fake->reads == 3 * POLLS ? 0 : 1);
	}
	waitpid(child, &status, 0);
	printf("child %d\n", status);
}

static __thread struct fabric_object *mine;
static pthread_barrier_t together;

static void poll_mine(void)
{
	for (int i = 0; i < POLLS; i++)
		queue_read(mine);
}

static void *thread_run(void *argument)
{
	for (int i = 0; i < TURNS; i++) {
		mine = opened(domain, FABRIC_CQ_OPEN);
		if (!is_watched(mine) || closed(mine) != 0)
			printf("thread 0\n");
	}
	mine = opened(domain, FABRIC_CQ_OPEN);
	pthread_barrier_wait(&together);
	receive(poll_mine);
	return argument;
}

static void scene_threads(void)
{
	pthread_t thread[THREADS];

	start(open_all);
	pthread_barrier_init(&together, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, thread_run, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	printf("closings %ld\n", fake->closed);
}

/* Reads a queue outside of a blocking call between two signals, for the program that counts instructions (steps.c). */
static void scene_counted(void)
{
	start(open_all);
	queue_read(queue[0]);
	raise(SIGUSR1);
	for (int i = 0; i < COUNTED; i++)
		queue_read(queue[0]);
	raise(SIGUSR1);
}

static const struct scene {
	const char *name;
	void (*play)(void);
} scenes[] = {
        {"poll", scene_poll},
        {"readfrom", scene_readfrom},
        {"counter", scene_counter},
        {"moving", scene_moving},
        {"completions", scene_completions},
        {"errors", scene_errors},
        {"nothing", scene_nothing},
        {"outside", scene_outside},
        {"before", scene_before},
        {"longer", scene_longer},
        {"shorter", scene_shorter},
        {"too_long", scene_too_long},
        {"too_short", scene_too_short},
        {"jump", scene_jump},
        {"newer", scene_newer},
        {"older", scene_older},
        {"several", scene_several},
        {"reopen", scene_reopen},
        {"reopen_past", scene_reopen_past},
        {"close", scene_close},
        {"many", scene_many},
        {"layers", scene_layers},
        {"shared", scene_shared},
        {"chosen", scene_chosen},
        {"foreign", scene_foreign},
        {"copied", scene_copied},
        {"fork", scene_fork},
        {"threads", scene_threads},
        {"counted", scene_counted},
};

/* Loads the component, and with it libfabric, with local symbols unless FABRIC_GLOBAL is set. */
static bool component_load(const char *path)
{
	void *component = dlopen(path, RTLD_NOW | (getenv("FABRIC_GLOBAL") ? RTLD_GLOBAL : RTLD_LOCAL));

	if (!component) {
		fprintf(stderr, "%s\n", dlerror());
		return false;
	}
	entry = dlsym(component, "component_entry");
	fake = entry->fake;
	return true;
}

int main(int argc, char **argv)
{
	if (argc != 3 || !component_load(argv[1]))
		return 2;
	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (strcmp(scenes[i].name, argv[2]) == 0) {
			scenes[i].play();
			MPI_Finalize();
			return 0;
		}
	return 2;
}
