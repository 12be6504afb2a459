#include "track/event_record.h"

#include <string.h>

/* ---- protocol buffers ---- */

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
/* Field numbers of Event, Summary, Summary.Value and SessionLog. */
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, SESSION_STATUS = 1, SESSION_START = 1 };

static void put_varint(struct buffer *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) buffer_append(out, &(uint8_t){(uint8_t)(value | 0x80)}, 1);
    buffer_append(out, &(uint8_t){(uint8_t)value}, 1);
}

static void put_key(struct buffer *out, int field, int wire)
{
    put_varint(out, (uint64_t)(field << 3 | wire));
}

/* Lowest byte first, whatever the machine's order. */
static void put_little(struct buffer *out, uint64_t value, int bytes)
{
    for (; bytes > 0; bytes--, value >>= 8) buffer_append(out, &(uint8_t){(uint8_t)value}, 1);
}

static void put_double(struct buffer *out, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(out, field, WIRE_64);
    put_little(out, bits, 8);
}

static void put_float(struct buffer *out, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(out, field, WIRE_32);
    put_little(out, bits, 4);
}

static void put_bytes(struct buffer *out, int field, const void *bytes, size_t length)
{
    put_key(out, field, WIRE_BYTES);
    put_varint(out, length);
    buffer_append(out, bytes, length);
}

/* ---- records ---- */

/* CRC-32C (Castagnoli), bit by bit: our records are a few hundred bytes, and libraries for it bring a C++ runtime. */
static uint32_t crc32c(const char *bytes, size_t length)
{
    uint32_t crc = 0xffffffffU;
    for (size_t i = 0; i < length; i++) {
        crc ^= (uint8_t)bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0x82f63b78U & (0U - (crc & 1)));
    }
    return ~crc;
}

/* TFRecord stores it rotated and offset, so that a CRC of a record with its CRC is not a constant. */
static uint32_t masked_crc(const char *bytes, size_t length)
{
    const uint32_t crc = crc32c(bytes, length);
    return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

/* Takes what is in `event`. */
static void put_record(struct buffer *out, struct buffer *event)
{
    char length[8];
    for (size_t i = 0; i < sizeof length; i++) length[i] = (char)(event->length >> (8 * i));
    if (event->status != STATUS_OK) out->status = event->status;
    buffer_append(out, length, sizeof length);
    put_little(out, masked_crc(length, sizeof length), 4);
    if (event->length > 0) buffer_append(out, event->bytes, event->length);
    put_little(out, masked_crc(event->bytes, event->length), 4);
    buffer_reset(event);
}

void event_record_version(struct buffer *out, double wall_time)
{
    static const char version[] = "brain.Event:2";
    struct buffer event = {0};
    put_double(&event, EVENT_WALL_TIME, wall_time);
    put_bytes(&event, EVENT_VERSION, version, sizeof version - 1);
    put_record(out, &event);
}

static void put_head(struct buffer *event, double wall_time, int64_t step)
{
    put_double(event, EVENT_WALL_TIME, wall_time);
    put_key(event, EVENT_STEP, WIRE_VARINT);
    put_varint(event, (uint64_t)step);
}

void event_record_start(struct buffer *out, double wall_time, int64_t step)
{
    struct buffer event = {0}, session = {0};
    put_key(&session, SESSION_STATUS, WIRE_VARINT);
    put_varint(&session, SESSION_START);
    put_head(&event, wall_time, step);
    put_bytes(&event, EVENT_SESSION, session.bytes, session.length);
    put_record(out, &event);
    buffer_reset(&session);
}

void event_scalars_add(struct event_scalars *scalars, const char *tag, double value)
{
    struct buffer one = {0};
    put_bytes(&one, VALUE_TAG, tag, strlen(tag));
    put_float(&one, VALUE_SIMPLE, (float)value);
    put_bytes(&scalars->summary, SUMMARY_VALUE, one.bytes, one.length);
    buffer_reset(&one);
}

void event_record_scalars(struct buffer *out, double wall_time, int64_t step, struct event_scalars *scalars)
{
    struct buffer event = {0};
    put_head(&event, wall_time, step);
    put_bytes(&event, EVENT_SUMMARY, scalars->summary.bytes, scalars->summary.length);
    put_record(out, &event);
    buffer_reset(&scalars->summary);
}
