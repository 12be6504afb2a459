#include "kinds/kind.h"

#include <assert.h>
#include <string.h>

const struct kind *const kinds[] = {
    &evaluate_kind,    &quantize_kind,  &sharpness_kind, &train_kind, &average_kind,
    &interpolate_kind, &landscape_kind, &health_kind,    &fetch_kind, &tasks_kind,
    &attribution_kind, &compare_kind,   &advice_kind,    NULL,
};

const char *const kind_names[] = {
    "evaluate", "quantize", "sharpness", "train",       "average", "interpolate", "landscape",
    "health",   "fetch",    "tasks",     "attribution", "compare", "plan",        NULL,
};
static_assert(sizeof kind_names / sizeof kind_names[0] == sizeof kinds / sizeof kinds[0], "a name for every kind");

const struct kind *kind_find(const struct kind *const *table, const char *name)
{
    for (; *table != NULL; table++)
        if (strcmp((*table)->name, name) == 0) return *table;
    return NULL;
}
