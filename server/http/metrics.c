#include "http/metrics.h"

#include "http/prometheus.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { CLASSES = 5 };

/* Upper bounds in milliseconds; a last bucket without a bound follows. */
static const int bounds[] = {1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 5000, 30000, 60000};
enum { BOUNDS = sizeof bounds / sizeof bounds[0] };

static const struct prometheus_row requests = {
    "deltaq_http_requests_total", "counter", "Requests answered, by class of status", {"route", "status"}};
static const struct prometheus_row times = {
    "deltaq_http_request_seconds", "histogram", "Time from request line to answer", {"route"}};
enum gauge { QUEUE_DEPTH, WAITING, STREAMS, CONNECTIONS, GAUGES };
static const struct prometheus_row gauges[GAUGES] = {
    [QUEUE_DEPTH] = {"deltaq_http_queue_depth", "gauge", "Requests waiting for a handler thread", {NULL}},
    [WAITING] = {"deltaq_http_waiting", "gauge", "Requests parked until something changes", {NULL}},
    [STREAMS] = {"deltaq_http_streams", "gauge", "Open event streams", {NULL}},
    [CONNECTIONS] = {"deltaq_http_connections", "gauge", "Open connections", {NULL}},
};

static const struct prometheus_row refusals = {
    "deltaq_http_refused_total", "counter", "Requests refused for their rate, or for who asked", {"reason"}};
static const char *const refused_names[METRICS_REFUSED] = {
    [METRICS_REFUSED_TOKEN_RATE] = "token-rate",
    [METRICS_REFUSED_ADDRESS_RATE] = "address-rate",
    [METRICS_REFUSED_WHO] = "not-allowed",
};

struct row {
    atomic_uint_fast64_t classes[CLASSES], buckets[BOUNDS + 1], milliseconds;
};

struct metrics {
    const struct route *routes; /* lent */
    size_t count;
    atomic_int connections;
    atomic_uint_fast64_t refused[METRICS_REFUSED];
    struct row rows[];
};

enum status metrics_new(const struct route *routes, size_t count, struct metrics **out, struct error *error)
{
    *out = calloc(1, sizeof **out + (count + 2) * sizeof(struct row));
    if (*out == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for the metrics");
    (*out)->routes = routes;
    (*out)->count = count;
    return STATUS_OK;
}

void metrics_free(struct metrics *metrics)
{
    free(metrics);
}

size_t metrics_row(const struct metrics *metrics, const struct route *route)
{
    return route != NULL ? (size_t)(route - metrics->routes) : metrics->count + 1;
}

size_t metrics_row_static(const struct metrics *metrics)
{
    return metrics->count;
}

void metrics_count(struct metrics *metrics, size_t row, int http_status, int64_t milliseconds)
{
    const int class = http_status / 100 - 1;
    size_t bucket = 0;
    while (bucket < BOUNDS && milliseconds > bounds[bucket]) bucket++;
    atomic_fetch_add_explicit(&metrics->rows[row].classes[class < 0 || class >= CLASSES ? CLASSES - 1 : class], 1,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&metrics->rows[row].buckets[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&metrics->rows[row].milliseconds, (uint_fast64_t)milliseconds, memory_order_relaxed);
}

void metrics_connections(struct metrics *metrics, int change)
{
    atomic_fetch_add_explicit(&metrics->connections, change, memory_order_relaxed);
}

void metrics_refused(struct metrics *metrics, enum metrics_refused why)
{
    atomic_fetch_add_explicit(&metrics->refused[why], 1, memory_order_relaxed);
}

/* route="GET /v1/runs/{id}" */
static void label(const struct metrics *metrics, size_t row, struct buffer *out)
{
    if (row < metrics->count)
        buffer_printf(out, "route=\"%s %s\"", metrics->routes[row].method, metrics->routes[row].pattern);
    else
        buffer_printf(out, "route=\"%s\"", row == metrics->count ? "static" : "none");
}

static uint64_t total(const struct row *row)
{
    uint64_t sum = 0;
    for (size_t i = 0; i <= BOUNDS; i++) sum += atomic_load_explicit(&row->buckets[i], memory_order_relaxed);
    return sum;
}

static void render_requests(const struct metrics *metrics, struct buffer *out)
{
    prometheus_head(&requests, out);
    for (size_t i = 0; i < metrics->count + 2; i++)
        for (int class = 0; class < CLASSES; class ++) {
            const uint64_t count = atomic_load_explicit(&metrics->rows[i].classes[class], memory_order_relaxed);
            if (count == 0) continue;
            buffer_puts(out, "deltaq_http_requests_total{");
            label(metrics, i, out);
            buffer_printf(out, ",status=\"%dxx\"} %llu\n", class + 1, (unsigned long long)count);
        }
}

static void render_histogram(const struct metrics *metrics, size_t index, struct buffer *out)
{
    const struct row *row = &metrics->rows[index];
    uint64_t below = 0;
    for (size_t i = 0; i <= BOUNDS; i++) {
        below += atomic_load_explicit(&row->buckets[i], memory_order_relaxed);
        buffer_puts(out, "deltaq_http_request_seconds_bucket{");
        label(metrics, index, out);
        if (i < BOUNDS)
            buffer_printf(out, ",le=\"%g\"} %llu\n", bounds[i] / 1000.0, (unsigned long long)below);
        else
            buffer_printf(out, ",le=\"+Inf\"} %llu\n", (unsigned long long)below);
    }
    buffer_puts(out, "deltaq_http_request_seconds_sum{");
    label(metrics, index, out);
    buffer_printf(out, "} %.3f\n", (double)atomic_load_explicit(&row->milliseconds, memory_order_relaxed) / 1000.0);
    buffer_puts(out, "deltaq_http_request_seconds_count{");
    label(metrics, index, out);
    buffer_printf(out, "} %llu\n", (unsigned long long)below);
}

void metrics_render(const struct metrics *metrics, unsigned queued, unsigned waiting, unsigned streams,
                    struct buffer *out)
{
    const double values[GAUGES] = {
        [QUEUE_DEPTH] = queued,
        [WAITING] = waiting,
        [STREAMS] = streams,
        [CONNECTIONS] = atomic_load_explicit(&metrics->connections, memory_order_relaxed),
    };
    render_requests(metrics, out);
    prometheus_head(&times, out);
    for (size_t i = 0; i < metrics->count + 2; i++)
        if (total(&metrics->rows[i]) > 0) render_histogram(metrics, i, out);
    prometheus_head(&refusals, out);
    for (int i = 0; i < METRICS_REFUSED; i++)
        prometheus_sample(&refusals, &refused_names[i],
                          (double)atomic_load_explicit(&metrics->refused[i], memory_order_relaxed), out);
    for (int i = 0; i < GAUGES; i++) {
        prometheus_head(&gauges[i], out);
        prometheus_sample(&gauges[i], NULL, values[i], out);
    }
}
