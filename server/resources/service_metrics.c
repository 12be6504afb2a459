#include "resources/service_metrics.h"

#include "base/clock.h"
#include "http/prometheus.h"
#include "kinds/kind.h"
#include "postgres/archive_segments.h"
#include "resources/disk_usage.h"
#include "store/statistics.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PREFIX "deltaq_"

/* All metrics of the service. A document has the numbers by these names without the prefix: rows with of_database come
 * from statistics_read, the others from look_around. docs/running.md has the same table. */
static const struct prometheus_row rows[] = {
    {"deltaq_runs", "gauge", "Runs in the state", {"kind", "state"}},
    {"deltaq_runs_unfinished", "gauge", "Runs in the queue or running: what workers are there for", {NULL}},
    {"deltaq_queue_length", "gauge", "Runs in the queue", {"kind"}},
    {"deltaq_oldest_queued_seconds", "gauge", "How long the oldest queued run has been due", {"kind"}},
    {"deltaq_runs_ended_total", "counter", "Runs that came to their end", {"kind", "state"}},
    {"deltaq_run_crashes_total", "counter", "Leases that ended with the death of the worker", {"kind"}},
    {"deltaq_run_expiries_total", "counter", "Leases that nobody renewed", {"kind"}},
    {"deltaq_run_stalls_total", "counter", "Leases given up because the engine stood still", {"kind"}},
    {"deltaq_run_rescues_total", "counter", "Runs back in the queue after a crash or expiry", {"kind"}},
    {"deltaq_run_retries_total", "counter", "Runs back in the queue after an error", {"kind"}},
    {"deltaq_run_releases_total", "counter", "Runs given back by a worker that stopped", {"kind"}},
    {"deltaq_run_seconds", "histogram", "How long runs that succeeded took", {"kind"}},
    {"deltaq_run_tokens_total",
     "counter",
     "Tokens that runs that succeeded trained or measured on, a trunk's once",
     {"kind"}},
    {"deltaq_leases", "gauge", "Leases that workers hold", {NULL}},
    {"deltaq_oldest_beat_seconds", "gauge", "Since the lease renewed longest ago was renewed", {NULL}},
    {"deltaq_workers", "gauge", "Workers seen in the last minute", {"device"}},
    {"deltaq_webhooks", "gauge", "Webhooks", {NULL}},
    {"deltaq_webhooks_waiting", "gauge", "Webhooks with changes still to be told", {NULL}},
    {"deltaq_webhooks_failing", "gauge", "Webhooks whose last try failed and is tried again", {NULL}},
    {"deltaq_webhook_tries_total", "counter", "Tries of webhooks by how they ended", {"outcome"}},
    {"deltaq_database_up", "gauge", "1 while the database answers", {NULL}},
    {"deltaq_database_size_bytes", "gauge", "Size of the database", {NULL}},
    {"deltaq_database_connections", "gauge", "Sessions with the database", {NULL}},
    {"deltaq_database_connections_max", "gauge", "Sessions that its server takes", {NULL}},
    {"deltaq_archive_waiting_segments", "gauge", "Segments of the database's log that wait to be archived", {NULL}},
    {"deltaq_data_directory_free_bytes", "gauge", "Free on the data directory's file system", {NULL}},
    {"deltaq_data_directory_size_bytes", "gauge", "Size of that file system", {NULL}},
    {"deltaq_stored_bytes", "gauge", "On the disk in a part of the data directory", {"directory"}},
    {"deltaq_server_resident_memory_bytes", "gauge", "Resident memory of the server's process", {NULL}},
};

struct service_metrics {
    const char *data_directory; /* lent */
    struct disk_usage *usage;
    json_t *kinds;
    pthread_mutex_t mutex; /* guards the members below */
    int64_t read_at;       /* clock_milliseconds; 0: never */
    json_t *document;      /* NULL: none yet, or no memory */
};

enum status service_metrics_new(const char *data_directory, struct service_metrics **out, struct error *error)
{
    struct service_metrics *metrics = calloc(1, sizeof *metrics);
    *out = NULL;
    if (metrics == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for the metrics");
    (void)pthread_mutex_init(&metrics->mutex, NULL);
    metrics->data_directory = data_directory;
    metrics->kinds = json_array();
    bool whole = metrics->kinds != NULL;
    for (size_t i = 0; whole && kind_names[i] != NULL; i++)
        whole = json_array_append_new(metrics->kinds, json_string(kind_names[i])) == 0;
    enum status status = whole ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for the metrics");
    if (status == STATUS_OK) status = disk_usage_start(data_directory, &metrics->usage, error);
    if (status == STATUS_OK)
        *out = metrics;
    else
        service_metrics_free(metrics);
    return status;
}

void service_metrics_free(struct service_metrics *metrics)
{
    if (metrics == NULL) return;
    disk_usage_stop(metrics->usage);
    json_decref(metrics->kinds);
    json_decref(metrics->document);
    (void)pthread_mutex_destroy(&metrics->mutex);
    free(metrics);
}

/* ---- numbers of this machine ---- */

/* -1: not known. */
static int64_t resident_bytes(void)
{
    long long pages = -1;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL) return -1;
    if (fscanf(file, "%*s %lld", &pages) != 1) pages = -1;
    (void)fclose(file);
    return pages < 0 ? -1 : (int64_t)pages * sysconf(_SC_PAGESIZE);
}

/* -1: nothing is archived, or the number is not known. */
static int64_t waiting_segments(const char *data_directory)
{
    char archive[ARCHIVE_PATH], path[PATH_MAX];
    struct error error;
    if (archive_recorded(data_directory, archive, &error) != STATUS_OK || archive[0] == '\0') return -1;
    const int length = snprintf(path, sizeof path, "%s/pg/data", data_directory);
    if (length < 0 || (size_t)length >= sizeof path) return -1;
    const int data = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const int64_t waiting = data >= 0 ? archive_segments_waiting(data) : -1;
    if (data >= 0) (void)close(data);
    return waiting;
}

static void put_number(json_t *document, const char *name, int64_t value)
{
    if (value >= 0) (void)json_object_set_new(document, name, json_integer((json_int_t)value));
}

static void look_around(const struct service_metrics *metrics, json_t *document)
{
    struct statvfs disk;
    json_t *stored = json_array();
    if (statvfs(metrics->data_directory, &disk) == 0) {
        put_number(document, "data_directory_free_bytes", (int64_t)((uint64_t)disk.f_bavail * disk.f_frsize));
        put_number(document, "data_directory_size_bytes", (int64_t)((uint64_t)disk.f_blocks * disk.f_frsize));
    }
    put_number(document, "archive_waiting_segments", waiting_segments(metrics->data_directory));
    put_number(document, "server_resident_memory_bytes", resident_bytes());
    for (size_t i = 0; disk_usage_names[i] != NULL; i++) {
        const int64_t bytes = disk_usage_bytes(metrics->usage, i);
        if (bytes >= 0)
            (void)json_array_append_new(stored, json_pack("[s, I]", disk_usage_names[i], (json_int_t)bytes));
    }
    (void)json_object_set_new(document, "stored_bytes", stored);
}

/* ---- rendering ---- */

static void render_labelled(const struct prometheus_row *row, const json_t *sample, struct buffer *out)
{
    const char *labels[PROMETHEUS_LABELS] = {"", ""};
    size_t count = 0;
    while (count < PROMETHEUS_LABELS && row->labels[count] != NULL) count++;
    if (json_array_size(sample) != count + 1) return;
    for (size_t i = 0; i < count; i++) labels[i] = json_string_value(json_array_get(sample, i));
    prometheus_sample(row, labels, json_number_value(json_array_get(sample, count)), out);
}

static void render_samples(const struct prometheus_row *row, const json_t *document, struct buffer *out)
{
    const json_t *found = json_object_get(document, row->name + strlen(PREFIX));
    if (json_is_number(found)) prometheus_sample(row, NULL, json_number_value(found), out);
    for (size_t i = 0; i < json_array_size(found); i++) render_labelled(row, json_array_get(found, i), out);
}

/* Buckets have an additional label: their upper bound. */
static void render_histogram(const struct prometheus_row *row, const json_t *document, struct buffer *out)
{
    static const struct {
        const char *tail, *bound;
    } parts[] = {{"_bucket", "le"}, {"_sum", NULL}, {"_count", NULL}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[80];
        (void)snprintf(name, sizeof name, "%s%s", row->name, parts[i].tail);
        const struct prometheus_row part = {name, row->type, row->help, {row->labels[0], parts[i].bound}};
        render_samples(&part, document, out);
    }
}

static void render_row(const struct prometheus_row *row, const json_t *document, struct buffer *out)
{
    prometheus_head(row, out);
    if (strcmp(row->type, "histogram") == 0)
        render_histogram(row, document, out);
    else
        render_samples(row, document, out);
}

static void read_anew(struct service_metrics *metrics, struct connection *connection)
{
    struct error error;
    json_t *document = NULL;
    const bool up = statistics_read(connection, metrics->kinds, &document, &error) == STATUS_OK;
    if (!up) document = json_object();
    put_number(document, "database_up", up);
    look_around(metrics, document);
    json_decref(metrics->document);
    metrics->document = document;
    metrics->read_at = clock_milliseconds();
}

void service_metrics_render(struct service_metrics *metrics, struct connection *connection, struct buffer *out)
{
    (void)pthread_mutex_lock(&metrics->mutex);
    if (metrics->read_at == 0 || clock_milliseconds() - metrics->read_at >= SERVICE_METRICS_SECONDS * 1000)
        read_anew(metrics, connection);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) render_row(&rows[i], metrics->document, out);
    (void)pthread_mutex_unlock(&metrics->mutex);
}
