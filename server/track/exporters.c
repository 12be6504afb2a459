#include "track/exporter.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

const struct exporter *const exporters[] = {&exporter_ndjson, &exporter_tensorboard, &exporter_mlflow, NULL};
const char *const exporter_names[] = {"ndjson", "tensorboard", "mlflow", NULL};
static_assert(sizeof exporter_names / sizeof exporter_names[0] == sizeof exporters / sizeof exporters[0],
              "a name for every tracker");

const struct exporter *exporter_find(const char *name)
{
    for (int i = 0; exporters[i] != NULL; i++)
        if (strcmp(exporters[i]->name, name) == 0) return exporters[i];
    return NULL;
}

void exporter_file_name(const char *name, char *out, size_t size)
{
    size_t used = 0;
    for (; *name != '\0' && used + 1 < size; name++)
        out[used++] = isalnum((unsigned char)*name) || strchr(" -._,+=", *name) != NULL ? *name : '_';
    out[used] = '\0';
    if (out[0] == '.') out[0] = '_'; /* "..", and hidden files */
}
