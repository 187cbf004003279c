/* Tracepoints of LTTng-UST with every kind of field it has. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER probe
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./probe.h"
#if !defined(_PROBE_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define _PROBE_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_ENUM(probe, state,
  LTTNG_UST_TP_ENUM_VALUES(
    lttng_ust_field_enum_value("idle", 0)
    lttng_ust_field_enum_range("busy", 1, 5)
    lttng_ust_field_enum_value("bu sy\"", 3)
    lttng_ust_field_enum_auto("auto")
    lttng_ust_field_enum_value("negative", -3)))
LTTNG_UST_TRACEPOINT_EVENT(probe, all,
  LTTNG_UST_TP_ARGS(int, n, const char *, text, const int16_t *, list, size_t, length, double, d),
  LTTNG_UST_TP_FIELDS(
    lttng_ust_field_integer(int8_t, i8, n)
    lttng_ust_field_integer(uint64_t, u64, (uint64_t) n * 0x123456789ABULL)
    lttng_ust_field_integer_hex(uint32_t, hex, n * 77)
    lttng_ust_field_integer_network(uint32_t, network, n)
    lttng_ust_field_integer_network_hex(uint16_t, network_hex, n)
    lttng_ust_field_float(float, f, (float) d)
    lttng_ust_field_float(double, d, d)
    lttng_ust_field_string(text, text)
    lttng_ust_field_array(int16_t, array, list, 3)
    lttng_ust_field_array_hex(int16_t, array_hex, list, 2)
    lttng_ust_field_array_text(char, array_text, text, 4)
    lttng_ust_field_sequence(int16_t, seq, list, size_t, length)
    lttng_ust_field_sequence_hex(int16_t, seq_hex, list, uint8_t, length)
    lttng_ust_field_sequence_text(char, seq_text, text, size_t, length)
    lttng_ust_field_array_network(int16_t, array_network, list, 3)
    lttng_ust_field_sequence_network(int16_t, seq_network, list, size_t, length)
    lttng_ust_field_enum(probe, state, int, state, n % 8 - 1)
    lttng_ust_field_unused(n)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(probe, all, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)
LTTNG_UST_TRACEPOINT_MODEL_EMF_URI(probe, all, "https://example.com/probe")
LTTNG_UST_TRACEPOINT_EVENT(probe, empty, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
#endif
#include <lttng/tracepoint-event.h>
