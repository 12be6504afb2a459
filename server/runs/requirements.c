#include "runs/requirements.h"

#include "schema/form.h"

#include <string.h>

enum { LABELS_MOST = 16, LABEL_BYTES = 100 };

static const char *const devices[] = {"cpu", "cuda", NULL};
static const struct param label = {.type = PARAM_STRING, .maximum = LABEL_BYTES, .form = &form_label};

const struct param requirements_params[] = {
    {.name = "device",
     .type = PARAM_CHOICE,
     .offset = offsetof(struct requirements, device),
     .fallback = "null",
     .nullable = true,
     .choices = devices,
     .help = "Kind of its device; null: any"},
    {.name = "labels",
     .type = PARAM_LIST,
     .offset = offsetof(struct requirements, labels),
     .fallback = "[]",
     .maximum = LABELS_MOST,
     .item = &label,
     .help = "Labels that it must have all of (deltaq worker --label)"},
    {.name = "memory_bytes",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct requirements, memory_bytes),
     .fallback = "null",
     .minimum = 1,
     .maximum = 1e15,
     .nullable = true,
     .help = "Memory of the host that a run may take there, at least; null: any"},
    {.name = "device_memory_bytes",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct requirements, device_memory_bytes),
     .fallback = "null",
     .minimum = 1,
     .maximum = 1e15,
     .nullable = true,
     .help = "Memory of its CUDA device that a run may take, at least; null: any"},
    {0},
};

enum status requirements_make(const json_t *given, json_t **out, struct error *error)
{
    const char *name;
    json_t *value;
    *out = NULL;
    if (!json_is_object(given)) return STATUS_OK;
    json_t *kept = json_object();
    bool good = kept != NULL;
    json_object_foreach((json_t *)(uintptr_t)given, name, value)
    {
        if (json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0)) continue;
        good = good && json_object_set(kept, name, value) == 0;
    }
    if (good && json_object_size(kept) > 0) {
        *out = kept;
        return STATUS_OK;
    }
    json_decref(kept);
    return good ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for a run's requirements");
}

enum status requirements_put(const json_t *requires, struct run_new *row, struct error *error)
{
    const char *device = json_string_value(json_object_get(requires, "device"));
    const bool on_cpu = device != NULL && strcmp(device, "cpu") == 0;
    row->requires = json_is_object(requires) ? requires : NULL;
    if (on_cpu && json_object_get(requires, "device_memory_bytes") != NULL)
        return error_set_at(error, STATUS_INVALID, "/requires/device_memory_bytes",
                            "a run on the CPU takes no memory of a device: memory_bytes is that of the host");
    return STATUS_OK;
}
