/* The two events, for LTTng-UST. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER compare
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./provider.h"
#if !defined(COMPARE_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define COMPARE_PROVIDER_H
#include <stddef.h>
#include <stdint.h>
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(compare, number,
  LTTNG_UST_TP_ARGS(uint64_t, value),
  LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, value, value)))
LTTNG_UST_TRACEPOINT_EVENT(compare, mixed,
  LTTNG_UST_TP_ARGS(uint32_t, small, uint64_t, large, const char *, text, size_t, length),
  LTTNG_UST_TP_FIELDS(
    lttng_ust_field_integer(uint32_t, small, small)
    lttng_ust_field_integer(uint64_t, large, large)
    lttng_ust_field_sequence_text(char, text, text, uint32_t, length)))
#endif
#include <lttng/tracepoint-event.h>
