/* The two events through LTTng-UST. It speaks as the Rust programs do (`serve` in ../src/lib.rs); whether events arrive is seen
 * from outside. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "provider.h"

enum { THREADS = 2 };

/* Volatile: its length is not known before. */
static const char *volatile sixteen = "sixteen bytes ok";

struct job {
	int is_mix;
	uint64_t unmeasured, events;
	pthread_barrier_t *together;
	double ns;
};

static __attribute__((noinline)) void fire(int is_mix, uint64_t events)
{
	const char *text = sixteen;
	size_t length = strlen(text);

	if (is_mix)
		for (uint64_t i = 0; i < events; i++)
			lttng_ust_tracepoint(compare, mixed, (uint32_t)i, i, text, length);
	else
		for (uint64_t i = 0; i < events; i++)
			lttng_ust_tracepoint(compare, number, i);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static void *work(void *argument)
{
	struct job *job = argument;
	double begin;

	fire(job->is_mix, job->unmeasured);
	pthread_barrier_wait(job->together);
	begin = now();
	fire(job->is_mix, job->events);
	job->ns = now() - begin;
	return NULL;
}

int main(void)
{
	char verb[16], payload[16];
	unsigned long count, events;

	printf("ready 200000\n");
	fflush(stdout);
	while (scanf("%15s %15s %lu %lu", verb, payload, &count, &events) == 4) {
		int is_check = strcmp(verb, "check") == 0;
		struct job jobs[THREADS];
		pthread_t threads[THREADS];
		pthread_barrier_t together;
		double ns = 0;

		if (count < 1 || count > THREADS)
			return EXIT_FAILURE;
		pthread_barrier_init(&together, NULL, count);
		for (unsigned long i = 0; i < count; i++) {
			jobs[i] = (struct job) {
				.is_mix = strcmp(payload, "mix") == 0,
				.unmeasured = is_check ? 0 : events / 10,
				.events = events,
				.together = &together,
			};
			if (pthread_create(&threads[i], NULL, work, &jobs[i]))
				return EXIT_FAILURE;
		}
		for (unsigned long i = 0; i < count; i++) {
			pthread_join(threads[i], NULL);
			ns += jobs[i].ns;
		}
		pthread_barrier_destroy(&together);
		printf("%f %lu -\n", ns / (events * count), (events + jobs[0].unmeasured) * count);
		fflush(stdout);
	}
	return EXIT_SUCCESS;
}
