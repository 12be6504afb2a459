#include "follow/follower.h"

#include "follow/verdict.h"
#include "log/log.h"
#include "store/followers.h"
#include "store/listener.h"

#include <stdlib.h>

/* A turn judges what a few changes touch, so that its transaction is short. What fails so many times in a row is passed
 * over: one gate that cannot be judged may not stop all others. */
enum { CHANGES_MOST = 10, FAILURES_MOST = 3 };
static const char NAME[] = "gates";

struct follower {
    struct listener *listener;
    bool said;      /* that it failed */
    int failures;   /* of this turn, in a row */
    json_t *passed; /* owned: pairs of a gate and a checkpoint that this turn passes over */
};

struct turn {
    const json_t *passed;
    bool moved, told; /* out */
    json_t *failed;   /* out, owned: the pair that could not be judged */
};

static enum status judge(struct connection *connection, const json_t *pair, json_t *kept, struct error *error)
{
    struct gate_row gate = {0};
    json_t *verdict = NULL;
    struct checkpoint *checkpoint = malloc(sizeof *checkpoint);
    enum status status = checkpoint == NULL
                             ? error_set(error, STATUS_NO_MEMORY, "no memory for a checkpoint")
                             : gate_find(connection, json_string_value(json_object_get(pair, "gate")), &gate, error);
    if (status == STATUS_OK)
        status = checkpoint_find(connection, json_string_value(json_object_get(pair, "checkpoint")), checkpoint, error);
    if (status == STATUS_OK) status = verdict_make(connection, &gate, checkpoint, kept, &verdict, error);
    if (status == STATUS_OK) status = gate_tell(connection, &gate, verdict, error);
    json_decref(verdict);
    gate_row_reset(&gate);
    free(checkpoint);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status; /* deleted meanwhile */
}

static bool is_among(const json_t *pairs, const json_t *pair)
{
    size_t i;
    const json_t *one;
    json_array_foreach(pairs, i, one)
    {
        if (json_equal(one, pair)) return true;
    }
    return false;
}

static enum status turn_body(struct connection *connection, void *context, struct error *error)
{
    struct turn *turn = context;
    int64_t after, until;
    json_t *pairs = NULL, *pair, *kept = json_object(); /* without memory nothing is kept */
    size_t i;
    enum status status = follower_lock(connection, NAME, &after, error);
    if (status == STATUS_OK) status = gate_horizon(connection, after, CHANGES_MOST, &until, error);
    if (status == STATUS_OK && until > after) status = gate_touched(connection, after, until, &pairs, error);
    json_array_foreach(pairs, i, pair)
    {
        if (status != STATUS_OK) break;
        if (is_among(turn->passed, pair)) continue;
        if ((status = judge(connection, pair, kept, error)) == STATUS_OK) continue;
        json_decref(turn->failed); /* of an attempt that was rolled back */
        turn->failed = json_incref(pair);
    }
    if (status == STATUS_OK && until > after) status = gate_forget(connection, after, until, error);
    turn->moved = status == STATUS_OK && until > after;
    turn->told = turn->moved && json_array_size(pairs) > 0;
    json_decref(pairs);
    json_decref(kept);
    return turn->moved ? follower_advance(connection, NAME, until, error) : status;
}

/* Whether the turn is to be tried once more, without the pair that failed. */
static bool pass_over(struct follower *follower, const struct turn *turn, const struct error *error)
{
    if (turn->failed == NULL || ++follower->failures < FAILURES_MOST) return false;
    log_error(LOG_COMPONENT_GATES, "gate %s passes over checkpoint %s, which it cannot judge: %s",
              json_string_value(json_object_get(turn->failed, "gate")),
              json_string_value(json_object_get(turn->failed, "checkpoint")), error->detail);
    follower->failures = 0;
    return json_array_append(follower->passed, turn->failed) == 0;
}

/* A person is told once that it fails, unless the database is just away. */
static void follow_log(void *context, struct connection *connection)
{
    struct follower *follower = context;
    struct error error;
    struct turn turn = {.moved = true};
    while (turn.moved) {
        turn = (struct turn){.passed = follower->passed};
        const enum status status = connection_transaction(connection, turn_body, &turn, NULL, &error);
        const bool away = status == STATUS_UNAVAILABLE;
        if (status != STATUS_OK && !away && !follower->said)
            log_error(LOG_COMPONENT_GATES, "gates cannot be judged: %s", error.detail);
        if (!away) follower->said = status != STATUS_OK;
        if (status == STATUS_OK) {
            follower->failures = 0;
            (void)json_array_clear(follower->passed);
            if (turn.told) store_notify(connection);
        } else
            turn.moved = !away && pass_over(follower, &turn, &error);
        json_decref(turn.failed);
    }
}

static void follower_free(struct follower *follower)
{
    json_decref(follower->passed);
    free(follower);
}

enum status follower_start(const char *conninfo, struct follower **out, struct error *error)
{
    struct follower *follower = calloc(1, sizeof *follower);
    *out = NULL;
    if (follower == NULL || (follower->passed = json_array()) == NULL) {
        free(follower);
        return error_set(error, STATUS_NO_MEMORY, "no memory for a thread");
    }
    const struct listener_options options = {
        .conninfo = conninfo, .application = "deltaq follow", .turn = follow_log, .context = follower};
    const enum status status = listener_start(&options, &follower->listener, error);
    if (status == STATUS_OK)
        *out = follower;
    else
        follower_free(follower);
    return status;
}

void follower_stop(struct follower *follower)
{
    if (follower == NULL) return;
    listener_stop(follower->listener);
    follower_free(follower);
}
