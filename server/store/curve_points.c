#include "store/curve_points.h"

#include "store/shared_measurements.h"

#include <stdlib.h>
#include <string.h>

const char *const curve_points_axes[] = {
    [CURVE_STEP] = "step", [CURVE_TOKENS] = "tokens", [CURVE_LEARNING_RATE] = "learning_rate"};

/* The condition on a number `n` that its series is a requested one; these are looked up first. */
#define CHOSEN                                                                                                   \
    " and n.series = any (array(select s.id from series s where" SERIES_FILTER_FITS("s", "$4", "$5", "$6", "$7", \
                                                                                    "$8") "))"
/* The value of a checkpoint `c` on the axis. */
#define X                                                                                                   \
    "case $3 when 'step' then c.step::double precision when 'tokens' then c.tokens::double precision else " \
    "c.learning_rate end"
#define OF_CHECKPOINT "c.id, c.name, c.step, "

/* Points of the trajectory `w`. */
#define OWN                                                                                                           \
    "select n.series, " X " as x, n.value, n.low, n.high, " OF_CHECKPOINT                                             \
    "n.run from newest n join checkpoints c on c.id = n.checkpoint where n.trajectory = w.id and c.trajectory = w.id" \
    " and n.metric = $2" CHOSEN
/* Checkpoints of the same content share their measurements, except those that compare two checkpoints. */
#define SHARED_FROM SHARED_MEASUREMENTS("w.id", "$2", CHOSEN)
#define SHARED                                                                                      \
    " union all select m.series, " X ", m.value, m.low, m.high, " OF_CHECKPOINT "m.run" SHARED_FROM \
    " where t.trajectory = w.id and c.trajectory = w.id and $2 not in " BETWEEN_CHECKPOINTS
#define RATES                                                                 \
    " union all select 0, " X ", c.learning_rate, null, null, " OF_CHECKPOINT \
    "null from checkpoints c where c.trajectory = w.id and $2 = 'learning_rate' and c.learning_rate is not null"
/* `offset 0`: one trajectory after the other. In one join of all the planner assumes some number of trajectories, sorts
 * all points at once, and takes half as long again. */
#define POINTS(branches)                                                                                              \
    CONNECTION_KEEPS_PLAN                                                                                             \
    "select w.place, p.* from json_array_elements_text($1::json) with ordinality as w (id, place) cross join lateral" \
    " (select * from (" branches ") b offset 0) p where p.x is not null order by w.place, p.series, p.x, p.name"

/* All would give the same points where the branches that a statement lacks have none. They cost most of a short
 * curve's time: planning them takes as long as reading a thousand points. */
static const char own_points[] = POINTS(OWN);
static const char own_and_shared_points[] = POINTS(OWN SHARED);
static const char all_points[] = POINTS(OWN SHARED RATES);

enum status curve_points_shared(struct connection *connection, const json_t *trajectories, bool *shared,
                                struct error *error)
{
    if (json_array_size(trajectories) == 0)
        return connection_query_boolean(connection, CONNECTION_KEEPS_PLAN "select exists (select from same_content)",
                                        NO_VALUES, shared, error);
    return connection_query_boolean(connection,
                                    CONNECTION_KEEPS_PLAN
                                    "select exists (select from same_content where trajectory = any (" CURVE_NAMED "))",
                                    VALUES(value_json(trajectories)), shared, error);
}

static enum status choose_statement(struct connection *connection, const json_t *trajectories, const char *metric,
                                    const char **out, struct error *error)
{
    bool shared = false;
    *out = all_points;
    if (strcmp(metric, "learning_rate") == 0) return STATUS_OK;
    const enum status status = curve_points_shared(connection, trajectories, &shared, error);
    *out = shared ? own_and_shared_points : own_points;
    return status;
}

/* The columns before those of enum curve_column. */
enum { PLACE, SERIES, POINT };

const struct curve_column_name curve_points_columns[CURVE_COLUMNS] = {
    [CURVE_X] = {"x", true},
    [CURVE_Y] = {"y", true},
    [CURVE_LOW] = {"low", true},
    [CURVE_HIGH] = {"high", true},
    [CURVE_CHECKPOINT] = {"checkpoint", false},
    [CURVE_CHECKPOINT_NAME] = {"checkpoint_name", false},
    [CURVE_POINT_STEP] = {"step", true},
    [CURVE_RUN] = {"run", false},
};

const char *curve_points_text(const struct curve_points *points, int row, enum curve_column column)
{
    const int place = POINT + (int)column;
    return rows_null(points->rows, row, place) ? NULL : rows_text(points->rows, row, place);
}

/* Makes the same JSON number as the database would: an integer when the text has no point and no exponent. */
static json_t *value_of(const struct curve_points *points, int row, enum curve_column column)
{
    const char *text = curve_points_text(points, row, column);
    if (text == NULL) return json_null();
    if (!curve_points_columns[column].number) return json_string(text);
    return strpbrk(text, ".e") != NULL ? json_real(strtod(text, NULL)) : json_integer(strtoll(text, NULL, 10));
}

enum status curve_points_json(const struct curve_points *points, size_t span, json_t **out, struct error *error)
{
    const struct curve_span *of = &points->spans[span];
    json_t *list = json_array();
    bool good = list != NULL;
    *out = NULL;
    for (int i = 0; good && i < of->count; i++) {
        if (of->kept != NULL && !of->kept[i]) continue;
        json_t *point = json_object();
        for (enum curve_column c = 0; good && c < CURVE_COLUMNS; c++)
            good = json_object_set_new(point, curve_points_columns[c].name, value_of(points, of->first + i, c)) == 0;
        if (json_array_append_new(list, point) != 0) good = false;
    }
    if (good) {
        *out = list;
        return STATUS_OK;
    }
    json_decref(list);
    return error_no_memory(error, "a curve");
}

static double value_at(const struct rows *rows, int row)
{
    return rows_double(rows, row, POINT + CURVE_Y);
}

/* Marks the points that remain when there are more than `most`. Of equal points the first remains. */
static void thin(const struct rows *rows, const struct curve_span *span, int64_t most)
{
    const int64_t parts = (most - 2) / 2, count = span->count;
    span->kept[0] = span->kept[count - 1] = true;
    for (int from = 0, next; from < count; from = next) {
        int lowest = from, highest = from;
        for (next = from + 1; next < count && next * parts / count == from * parts / count; next++) {
            const double value = value_at(rows, span->first + next);
            if (value < value_at(rows, span->first + lowest)) lowest = next;
            if (value > value_at(rows, span->first + highest)) highest = next;
        }
        span->kept[lowest] = span->kept[highest] = true;
    }
}

static bool same_series(const struct rows *rows, int a, int b)
{
    return rows_integer(rows, a, PLACE) == rows_integer(rows, b, PLACE) &&
           rows_integer(rows, a, SERIES) == rows_integer(rows, b, SERIES);
}

/* The row of a checkpoint in a span; -1 where it has none. */
static int find_checkpoint(const struct curve_points *points, const struct curve_span *span, const char *checkpoint)
{
    for (int i = 0; checkpoint != NULL && i < span->count; i++)
        if (strcmp(rows_text(points->rows, span->first + i, POINT + CURVE_CHECKPOINT), checkpoint) == 0) return i;
    return -1;
}

/* Its place among all of the span, the greatest first; equal ones share the best. */
static json_t *rank_of(const struct curve_points *points, const struct curve_span *span, int place)
{
    int greater = 0;
    if (place < 0) return json_null();
    for (int i = 0; i < span->count; i++)
        if (value_at(points->rows, span->first + i) > value_at(points->rows, span->first + place)) greater++;
    return json_integer(1 + greater);
}

static enum status append_span(struct curve_points *points, struct curve_span span, const struct curve_query *query,
                               struct error *error)
{
    const int place = find_checkpoint(points, &span, query->checkpoint);
    struct curve_span *spans = realloc(points->spans, (points->count + 1) * sizeof *spans);
    if (spans == NULL) return error_no_memory(error, "a curve");
    points->spans = spans;
    if (query->points != 0 && span.count > query->points) {
        if ((span.kept = calloc((size_t)span.count, sizeof *span.kept)) == NULL)
            return error_no_memory(error, "a curve");
        thin(points->rows, &span, query->points);
        if (place >= 0) span.kept[place] = true;
    }
    spans[points->count++] = span;
    json_t *series = json_pack("[IIIo]", (json_int_t)rows_integer(points->rows, span.first, PLACE),
                               (json_int_t)rows_integer(points->rows, span.first, SERIES), (json_int_t)span.count,
                               rank_of(points, &span, place));
    return json_array_append_new(points->series, series) == 0 ? STATUS_OK : error_no_memory(error, "a curve");
}

enum status curve_points_read(struct connection *connection, const json_t *trajectories,
                              const struct curve_query *query, struct curve_points *out, struct error *error)
{
    *out = (struct curve_points){.series = json_array()};
    const char *statement = NULL;
    enum status status = out->series != NULL ? STATUS_OK : error_no_memory(error, "a curve");
    if (status == STATUS_OK) status = choose_statement(connection, trajectories, query->metric, &statement, error);
    if (status == STATUS_OK)
        status =
            connection_query(connection, statement,
                             VALUES(value_json(trajectories), value_text(query->metric),
                                    value_text(curve_points_axes[query->axis]), SERIES_FILTER_VALUES(query->series)),
                             &out->rows, error);
    const int count = status == STATUS_OK ? rows_count(out->rows) : 0;
    for (int first = 0, next; first < count && status == STATUS_OK; first = next) {
        for (next = first + 1; next < count && same_series(out->rows, first, next);) next++;
        status = append_span(out, (struct curve_span){first, next - first, NULL}, query, error);
    }
    if (status != STATUS_OK) curve_points_reset(out);
    return status;
}

void curve_points_reset(struct curve_points *points)
{
    for (size_t i = 0; i < points->count; i++) free(points->spans[i].kept);
    free(points->spans);
    rows_free(points->rows);
    json_decref(points->series);
    *points = (struct curve_points){0};
}
