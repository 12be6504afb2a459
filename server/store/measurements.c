#include "store/measurements.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 100000 };

enum status measurements_add(struct measurements *list, const struct measurement *item, struct error *error)
{
    if (!isfinite(item->value)) return STATUS_OK;
    if (list->count >= MOST) return error_set(error, STATUS_TOO_LARGE, "more than %d measurements of one run", MOST);
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        struct measurement *items = realloc(list->items, capacity * sizeof *items);
        if (items == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for %zu measurements", capacity);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = *item;
    return STATUS_OK;
}

void measurements_reset(struct measurements *list)
{
    free(list->items);
    memset(list, 0, sizeof *list);
}

static json_t *number_or_null(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

static json_t *text_or_null(const char *text)
{
    return text[0] != '\0' ? json_string(text) : json_null();
}

/* One array instead of one statement for each row: a sweep over layers may have thousands. */
static json_t *as_json(const struct measurements *list)
{
    json_t *array = json_array();
    for (size_t i = 0; array != NULL && i < list->count; i++) {
        const struct measurement *item = &list->items[i];
        json_t *object =
            json_pack("{s:o, s:s, s:f, s:o, s:o, s:s, s:i, s:s, s:s, s:s, s:s, s:s}", "checkpoint",
                      text_or_null(item->checkpoint.text), "metric", item->metric, "value", item->value, "low",
                      number_or_null(item->low), "high", number_or_null(item->high), "method", item->method, "bits",
                      item->bits, "label", item->label, "dataset", item->dataset, "protocol", item->protocol,
                      "calibration", item->calibration, "calibrated_on", item->calibrated_on);
        if (object == NULL || json_array_append_new(array, object) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

enum status measurements_insert(struct connection *connection, const char *run, int64_t epoch,
                                const struct measurements *list, struct error *error)
{
    if (list == NULL || list->count == 0) return STATUS_OK;
    json_t *array = as_json(list);
    if (array == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for %zu measurements", list->count);
    const enum status status = connection_execute(
        connection,
        CONNECTION_KEEPS_PLAN
        "insert into measurements (run, epoch, checkpoint, metric, value, low, high, method, bits, label, dataset,"
        " protocol, calibration, calibrated_on)"
        " select $1, $2, m.checkpoint, m.metric, m.value, m.low, m.high, m.method, m.bits, m.label, m.dataset,"
        " m.protocol, m.calibration, m.calibrated_on from json_to_recordset($3::json)"
        " as m (checkpoint text, metric text, value double precision, low double precision, high double precision,"
        " method text, bits integer,"
        " label text, dataset text, protocol text, calibration text, calibrated_on text) where m.checkpoint is null"
        " or exists (select 1 from checkpoints c where c.id = m.checkpoint)",
        VALUES(value_text(run), value_integer(epoch), value_json(array)), NULL, error);
    json_decref(array);
    return status;
}
