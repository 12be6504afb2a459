/* Averages, the line and the plane of shared/reference/ckpt: losses within 1e-5, projections 1e-4 relative, directions
 * |cos| > 1 - 1e-6, averages to the bit. */
#include "base/memory.h"
#include "eval/evaluate.h"
#include "jobs/average.h"
#include "jobs/interpolate.h"
#include "jobs/landscape.h"
#include "shared.h"

#include "engine/files/scratch.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { MEMBERS = 6 };

struct fixture {
    json_t *reference;
    struct model *models[MEMBERS];
    char names[MEMBERS][64];
    const char *labels[MEMBERS];
    struct family family;
    struct backend *backend;
    struct sequences sequences;
    char tensors[512]; /* path of reference.safetensors */
};

static double number_at(const json_t *list, size_t i)
{
    return json_number_value(json_array_get(list, i));
}

static void tokens_read(struct fixture *fixture)
{
    const json_t *rows = json_object_get(fixture->reference, "tokens");
    const size_t count = json_array_size(rows), length = json_array_size(json_array_get(rows, 0));
    fixture->sequences = (struct sequences){(int64_t)count, calloc(count + 1, sizeof(int64_t)),
                                            calloc(count * length, sizeof(uint32_t))};
    for (size_t s = 0; s <= count; s++) fixture->sequences.starts[s] = (int64_t)(s * length);
    for (size_t t = 0; t < count * length; t++)
        fixture->sequences.tokens[t] =
            (uint32_t)json_integer_value(json_array_get(json_array_get(rows, t / length), t % length));
}

static void open_fixture(struct fixture *fixture)
{
    char path[512];
    struct error error;
    *fixture = (struct fixture){0};
    fixture->reference = json_load_file(shared_require("reference/ckpt/reference.json", path, sizeof path), 0, NULL);
    (void)shared_require("reference/ckpt/reference.safetensors", fixture->tensors, sizeof fixture->tensors);
    assert_non_null(fixture->reference);
    for (size_t k = 0; k < MEMBERS; k++) {
        (void)snprintf(fixture->names[k], sizeof fixture->names[k], "reference/ckpt/step%zu000.safetensors", k + 1);
        if (model_open(shared_require(fixture->names[k], path, sizeof path), &fixture->models[k], &error) != STATUS_OK)
            fail_msg("%s", error.detail);
        fixture->labels[k] = fixture->names[k];
    }
    const enum status status =
        family_init((const struct model *const *)fixture->models, fixture->labels, MEMBERS, &fixture->family, &error);
    if (status != STATUS_OK) fail_msg("%s", error.detail);
    assert_int_equal(backend_cpu_new(NULL, &fixture->backend, &error), STATUS_OK);
    tokens_read(fixture);
}

static void close_fixture(struct fixture *fixture)
{
    free(fixture->sequences.starts);
    free(fixture->sequences.tokens);
    backend_free(fixture->backend);
    family_reset(&fixture->family);
    for (int k = 0; k < MEMBERS; k++) model_close(fixture->models[k]);
    json_decref(fixture->reference);
}

static struct point_request point_of(const struct fixture *fixture, const struct family *family)
{
    return (struct point_request){.family = family, .backend = fixture->backend, .evaluation = &fixture->sequences};
}

static double loss_at(const struct fixture *fixture, const double *coefficients, double divisor)
{
    const struct point_request request = point_of(fixture, &fixture->family);
    struct point point;
    struct error error;
    if (point_measure(&request, coefficients, divisor, &point, &error) != STATUS_OK) fail_msg("%s", error.detail);
    return point.loss;
}

static void assert_near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance)) fail_msg("%.12g is not %.12g within %g", found, expected, tolerance);
}

static void test_losses_of_members_and_averages(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture);
    for (size_t k = 0; k < MEMBERS; k++) {
        double one[MEMBERS] = {0};
        one[k] = 1;
        assert_near(loss_at(&fixture, one, 1), number_at(json_object_get(fixture.reference, "losses"), k), 1e-5);
    }
    const int windows[] = {2, 3, 5, 6};
    for (int i = 0; i < 4; i++) {
        char key[8];
        double last[MEMBERS] = {0};
        for (int k = 0; k < windows[i]; k++) last[MEMBERS - 1 - k] = 1;
        (void)snprintf(key, sizeof key, "%d", windows[i]);
        assert_near(loss_at(&fixture, last, windows[i]),
                    json_number_value(json_object_get(json_object_get(fixture.reference, "average_last"), key)), 1e-5);
    }
    const double soup[MEMBERS] = {0, 0.2, 0, 0.3, 0, 0.5};
    assert_near(loss_at(&fixture, soup, 1),
                json_number_value(json_object_get(json_object_get(fixture.reference, "weighted_soup"), "loss")), 1e-5);
    close_fixture(&fixture);
}

/* The file holds the reference's double average, rounded once. */
static void test_average_file_is_bit_exact(void **state)
{
    (void)state;
    struct fixture fixture;
    struct scratch scratch;
    struct error error;
    struct family last;
    struct model *made = NULL;
    open_fixture(&fixture);
    scratch_open(&scratch);
    const struct model *const *members = (const struct model *const *)fixture.models;
    assert_int_equal(family_init(members + 1, fixture.labels + 1, 5, &last, &error), STATUS_OK);
    const struct average_request request = {.family = &last, .directory = scratch.directory, .dtype = -1};
    if (average_write(&request, &error) != STATUS_OK) fail_msg("%s", error.detail);
    assert_int_equal(model_open(scratch.directory, &made, &error), STATUS_OK);
    for (int64_t t = 0; t < last.tensors; t++) {
        char name[128];
        int64_t elements = 0;
        (void)snprintf(name, sizeof name, "average_last5.%s", last.names[t]);
        double *expected = shared_tensor(fixture.tensors, name, &elements);
        float *found = calloc((size_t)elements, sizeof *found);
        assert_int_equal(
            weights_read_f32(made->weights, weights_find(made->weights, last.names[t]), 0, elements, found, &error),
            STATUS_OK);
        for (int64_t i = 0; i < elements; i++)
            if (found[i] != (float)expected[i])
                fail_msg("%s[%lld]: %a is not %a", name, (long long)i, found[i], expected[i]);
        free(found);
        free(expected);
    }
    model_close(made);
    family_reset(&last);
    scratch_close(&scratch);
    close_fixture(&fixture);
}

/* From the last checkpoint to an average that is itself a mix: mixes nest. */
static void test_line(void **state)
{
    (void)state;
    struct fixture fixture;
    struct error error;
    struct model *average = NULL;
    struct family two;
    struct interpolate_result result;
    open_fixture(&fixture);
    const double last5[MEMBERS] = {0, 1, 1, 1, 1, 1};
    assert_int_equal(family_model(&fixture.family, last5, 5, &average, &error), STATUS_OK);
    const struct model *ends[2] = {fixture.models[5], average};
    const char *const labels[2] = {"last", "average"};
    assert_int_equal(family_init(ends, labels, 2, &two, &error), STATUS_OK);
    const struct interpolate_request request = {.point = point_of(&fixture, &two), .low = 0, .high = 1, .points = 11};
    if (interpolate_run(&request, &result, &error) != STATUS_OK) fail_msg("%s", error.detail);
    const json_t *expected = json_object_get(json_object_get(fixture.reference, "interpolation"), "losses");
    for (size_t i = 0; i < 11; i++) {
        assert_near(result.alphas[i], (double)i / 10, 1e-15);
        assert_near(result.points[i].loss, number_at(expected, i), 1e-5);
    }
    interpolate_result_reset(&result);
    family_reset(&two);
    model_close(average);
    close_fixture(&fixture);
}

/* Cosine of a direction, made from the members as its coefficients say, with the reference's. */
static double cosine_of(const struct fixture *fixture, const double *axis, int number)
{
    double inner = 0, found = 0, expected = 0;
    for (int64_t t = 0; t < fixture->family.tensors; t++) {
        struct error error;
        char name[128];
        int64_t elements = 0;
        (void)snprintf(name, sizeof name, "dir%d.%s", number, fixture->family.names[t]);
        double *reference = shared_tensor(fixture->tensors, name, &elements),
               *entries = calloc((size_t)elements, sizeof *entries);
        float *values = calloc((size_t)elements, sizeof *values);
        for (int64_t k = 0; k < MEMBERS; k++) {
            assert_int_equal(family_read(&fixture->family, k, t, 0, elements, values, &error), STATUS_OK);
            for (int64_t i = 0; i < elements; i++) entries[i] += axis[k] * (double)values[i];
        }
        for (int64_t i = 0; i < elements; i++) {
            inner += entries[i] * reference[i];
            found += entries[i] * entries[i];
            expected += reference[i] * reference[i];
        }
        free(values);
        free(entries);
        free(reference);
    }
    assert_near(found, 1, 1e-9);
    return inner / sqrt(found * expected);
}

static void test_plane(void **state)
{
    (void)state;
    struct fixture fixture;
    struct error error;
    struct landscape_result result;
    open_fixture(&fixture);
    const json_t *plane = json_object_get(fixture.reference, "plane");
    const struct landscape_request request = {
        .point = point_of(&fixture, &fixture.family), .columns = 5, .rows = 4, .margin = 0.25};
    if (landscape_run(&request, &result, &error) != STATUS_OK) fail_msg("%s", error.detail);
    assert_int_equal(fixture.family.parameters, json_integer_value(json_object_get(plane, "n_params")));
    for (size_t axis = 0; axis < 2; axis++) {
        assert_near(result.plane.explained[axis], number_at(json_object_get(plane, "explained_variance_ratio"), axis),
                    1e-9);
        assert_true(cosine_of(&fixture, result.plane.axes + axis * MEMBERS, (int)axis + 1) >
                    1 - 1e-12); /* with its sign */
    }
    for (size_t k = 0; k < MEMBERS; k++) {
        for (size_t axis = 0; axis < 2; axis++)
            assert_near(result.plane.points[2 * k + axis],
                        number_at(json_array_get(json_object_get(plane, "projections"), k), axis), 1e-8);
        assert_near(result.path[k].loss, number_at(json_object_get(plane, "loss_at_projection"), k), 1e-5);
    }
    for (size_t i = 0; i < 5; i++) assert_near(result.x[i], number_at(json_object_get(plane, "grid_x"), i), 1e-8);
    for (size_t i = 0; i < 4; i++) assert_near(result.y[i], number_at(json_object_get(plane, "grid_y"), i), 1e-8);
    for (size_t i = 0; i < 20; i++)
        assert_near(result.mesh[i].loss, number_at(json_array_get(json_object_get(plane, "loss"), i / 5), i % 5), 1e-5);
    landscape_result_reset(&result);
    close_fixture(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_of_members_and_averages),
        cmocka_unit_test(test_average_file_is_bit_exact),
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_plane),
    };
    return cmocka_run_group_tests_name("geometry against the reference", tests, NULL, NULL);
}
