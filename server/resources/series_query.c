#include "resources/series_query.h"

#include "kinds/method.h"
#include "kinds/metrics.h"
#include "store/datasets.h"

enum { BITS_MAX = 64 };

static enum status read_method(const struct request *request, const char **out, struct error *error)
{
    char known[METHODS_TEXT];
    *out = request_query(request, "method");
    if (*out == NULL || method_known(*out, known)) return STATUS_OK;
    return request_query_fault(error, "method", "no method is named \"%.60s\"; there are %s", *out, known);
}

static enum status read_dataset(struct connection *connection, const struct request *request, char out[STORE_NAME],
                                struct error *error)
{
    const char *asked = request_query(request, "dataset");
    if (asked == NULL) return STATUS_OK;
    const enum status status = dataset_name_measured(connection, asked, out, error);
    if (status != STATUS_OK || out[0] != '\0') return status;
    return request_query_fault(error, "dataset",
                               "no dataset is named \"%.60s\"; GET /v1/datasets lists those there are", asked);
}

enum status series_query_filter(struct connection *connection, const struct request *request, struct series_filter *out,
                                struct error *error)
{
    *out = (struct series_filter){
        .protocol = request_query(request, "protocol"),
        .calibration = request_query(request, "calibration"),
    };
    enum status status = request_query_integer(request, "bits", 0, 0, BITS_MAX, &out->bits, error);
    if (status == STATUS_OK) status = read_method(request, &out->method, error);
    if (status == STATUS_OK) status = read_dataset(connection, request, out->dataset, error);
    return status;
}

enum status series_query_fits(const struct request *request, const struct series_filter *filter, const char *field,
                              const char *metric, struct error *error)
{
    static const char *const names[] = {"method", "dataset", "protocol", "calibration"};
    const char *given = filter->bits != 0 ? "bits" : NULL;
    if (metrics_measured(metric)) return STATUS_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && given == NULL; i++)
        if (request_query(request, names[i]) != NULL) given = names[i];
    if (given == NULL) return STATUS_OK;
    return request_query_fault(error, given, "means nothing for %s=%.60s, which no run measures", field, metric);
}

enum status series_query_trajectories(const struct request *request, const char **names, size_t *count,
                                      struct error *error)
{
    *count = 0;
    for (const char *name; (name = request_query_at(request, "trajectory", *count)) != NULL;) {
        if (*count == SERIES_QUERY_TRAJECTORIES)
            return request_query_fault(error, "trajectory", "at most %d at once", SERIES_QUERY_TRAJECTORIES);
        names[(*count)++] = name;
    }
    return STATUS_OK;
}
