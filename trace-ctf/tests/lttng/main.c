/* Fires the tracepoints as often as its argument says. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include <stdint.h>
#include <stdlib.h>
#include "probe.h"

int main(int argc, char **argv)
{
	static const int16_t list[] = { -1, 2, 300, -32768, 5, 6, 7 };
	static const char *const texts[] = { "abcdefg", "q\"'?\\ \n\t", "\303\251longer text", "/index.html" };
	int count = argc > 1 ? atoi(argv[1]) : 100;

	for (int i = 0; i < count; i++) {
		/* Never an empty text: babeltrace2 2.0.4 shows an earlier one there. */
		lttng_ust_tracepoint(probe, all, i, texts[i % 4], list, 1 + i % 6, i * 1.5 - 7);
		lttng_ust_tracepoint(probe, empty);
	}
	return 0;
}
