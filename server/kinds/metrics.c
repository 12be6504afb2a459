#include "kinds/metrics.h"

#include "base/words.h"
#include "kinds/kind.h"

#include <assert.h>
#include <string.h>

/* A property of checkpoints; no run measures it. */
static const struct result_metric learning_rate_metric = {
    .name = "learning_rate",
    .label = "Learning rate",
    .axis = "learning rate",
    .help = "Of the checkpoint, as it was registered",
};

static void add(const struct result_metric *about, const char *kind, struct metric *out, size_t *count)
{
    struct metric *metric = out;
    while (metric < out + *count && strcmp(metric->about->name, about->name) != 0) metric++;
    if (metric == out + *count) {
        assert(*count < METRICS_MOST);
        *metric = (struct metric){.about = about};
        (*count)++;
    }
    if (kind == NULL || (metric->kind_count > 0 && metric->kinds[metric->kind_count - 1] == kind)) return;
    assert(metric->kind_count < METRICS_KINDS);
    metric->kinds[metric->kind_count++] = kind;
}

/* Adds the rows that measure_result takes; rows of lists are left out. */
static void add_shape(const struct result_shape *shape, const char *kind, struct metric *out, size_t *count)
{
    for (const struct result_field *field = shape->fields; field->type != RESULT_END; field++) {
        if (field->type == RESULT_OBJECT || field->type == RESULT_MERGED)
            add_shape(field->shape, kind, out, count);
        else if (field->metric != NULL && !field->unkept)
            add(field->metric, kind, out, count);
    }
}

size_t metrics_list(struct metric out[METRICS_MOST])
{
    size_t count = 0;
    for (const struct kind *const *kind = kinds; *kind != NULL; kind++) {
        add_shape((*kind)->result, (*kind)->name, out, &count);
        for (const struct result_shape *const *shape = (*kind)->measured; shape != NULL && *shape != NULL; shape++)
            add_shape(*shape, (*kind)->name, out, &count);
    }
    add(&learning_rate_metric, NULL, out, &count);
    return count;
}

const struct result_metric *metrics_find(const char *name)
{
    struct metric all[METRICS_MOST];
    const size_t count = metrics_list(all);
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].about->name, name) == 0) return all[i].about;
    return NULL;
}

bool metrics_measured(const char *name)
{
    const struct result_metric *found = metrics_find(name);
    return found != NULL && found != &learning_rate_metric;
}

const char *metrics_nearest(const char *name)
{
    struct metric all[METRICS_MOST];
    const size_t count = metrics_list(all);
    struct words_meant meant = {.given = name, .below = strlen(name) / 3 + 2};
    for (size_t i = 0; i < count; i++) words_consider(&meant, all[i].about->name);
    return meant.found;
}
