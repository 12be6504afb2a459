#include "unit.h"

#include "health/integrity.h"

#include <math.h>
#include <string.h>

enum { MOST = 160, MATRICES = 6, FILES = 2 };

/* A trajectory made by hand: matrices 0 to 2 lie in file 0, the others in file 1. */
struct trajectory {
    struct integrity_point points[MOST];
    struct integrity_file files[MOST][FILES];
    uint64_t matrices[MOST][MATRICES];
    int32_t homes[MATRICES];
    int64_t count;
    struct integrity found;
};

static void seal(struct trajectory *trajectory, int64_t i)
{
    struct integrity_point *point = &trajectory->points[i];
    point->content = 0;
    trajectory->files[i][0].key = trajectory->files[i][1].key = 0;
    for (int m = 0; m < MATRICES; m++) {
        point->content = point->content * 1000003 + trajectory->matrices[i][m];
        trajectory->files[i][trajectory->homes[m]].key =
            trajectory->files[i][trajectory->homes[m]].key * 1000003 + trajectory->matrices[i][m];
    }
}

static void make(struct trajectory *out, int64_t count)
{
    memset(out, 0, sizeof *out);
    out->count = count;
    for (int m = 0; m < MATRICES; m++) out->homes[m] = m < 3 ? 0 : 1;
    for (int64_t i = 0; i < count; i++) {
        const double relative = i == 0 ? NAN : 0.01 * (1 + 0.1 * sin((double)i));
        for (int m = 0; m < MATRICES; m++) out->matrices[i][m] = (uint64_t)(1000 * (i + 1) + m);
        for (int f = 0; f < FILES; f++) out->files[i][f].relative = relative;
        out->points[i] = (struct integrity_point){.measured = true,
                                                  .step = 1000 * i,
                                                  .file_count = FILES,
                                                  .files = out->files[i],
                                                  .matrix_count = MATRICES,
                                                  .matrices = out->matrices[i],
                                                  .homes = out->homes,
                                                  .previous = i - 1,
                                                  .relative = relative};
        seal(out, i);
    }
}

static void find(struct trajectory *trajectory)
{
    struct error error;
    if (integrity_find(trajectory->points, trajectory->count, &trajectory->found, &error) != STATUS_OK)
        fail_msg("%s", error.detail);
}

static void copy(struct trajectory *trajectory, int64_t to, int64_t from)
{
    memcpy(trajectory->matrices[to], trajectory->matrices[from], sizeof trajectory->matrices[to]);
    seal(trajectory, to);
}

static void move(struct trajectory *trajectory, int64_t i, double relative)
{
    trajectory->points[i].relative = relative;
    for (int f = 0; f < FILES; f++) trajectory->files[i][f].relative = relative;
}

static void test_nothing_is_wrong_with_a_healthy_run(void **state)
{
    struct trajectory trajectory;
    (void)state;
    make(&trajectory, 150);
    find(&trajectory);
    for (int64_t i = 0; i < trajectory.count; i++) assert_int_equal(trajectory.found.flags[i], 0);
    assert_int_equal(trajectory.found.share_count + trajectory.found.jump_count + trajectory.found.gap_count, 0);
    assert_int_equal(trajectory.found.constant, 0);
    integrity_reset(&trajectory.found);
}

/* Pythia-2.8B: 86 of 154 revisions hold the final weights. */
static void test_revisions_with_the_final_weights_are_one_group(void **state)
{
    struct trajectory trajectory;
    int64_t marked = 0;
    (void)state;
    make(&trajectory, 154);
    for (int64_t i = 0; i < 85; i++) copy(&trajectory, 20 + i + i / 3, 153);
    find(&trajectory);
    for (int64_t i = 0; i < trajectory.count; i++) {
        const bool final = trajectory.points[i].content == trajectory.points[153].content;
        assert_int_equal((trajectory.found.flags[i] & INTEGRITY_IDENTICAL) != 0, final);
        assert_int_equal(trajectory.found.groups[i], final ? 20 : -1);
        marked += final;
    }
    assert_int_equal(marked, 86);
    assert_int_equal(trajectory.found.share_count, 0);
    integrity_reset(&trajectory.found);
}

static void test_three_identical_branches(void **state)
{
    struct trajectory trajectory;
    (void)state;
    make(&trajectory, 3);
    for (int64_t i = 0; i < 3; i++) {
        trajectory.points[i].step = 11931;
        copy(&trajectory, i, 0);
        move(&trajectory, i, i == 0 ? NAN : 0);
    }
    find(&trajectory);
    for (int64_t i = 0; i < 3; i++) assert_int_equal(trajectory.found.groups[i], 0);
    assert_int_equal(trajectory.found.jump_count + trajectory.found.gap_count + trajectory.found.constant, 0);
    integrity_reset(&trajectory.found);
}

/* Pythia-12B: a first shard of another step. */
static void test_a_wrong_shard_is_named_and_its_owner_is_not(void **state)
{
    struct trajectory trajectory;
    (void)state;
    make(&trajectory, 60);
    for (int m = 0; m < 3; m++) trajectory.matrices[30][m] = trajectory.matrices[59][m];
    seal(&trajectory, 30);
    trajectory.files[30][0].relative = trajectory.files[31][0].relative = 0.3;
    find(&trajectory);
    assert_int_equal(trajectory.found.share_count, 1);
    assert_int_equal(trajectory.found.shares[0].point, 30);
    assert_int_equal(trajectory.found.shares[0].with, 59);
    assert_int_equal(trajectory.found.shares[0].file, 0);
    assert_int_equal(trajectory.found.shares[0].matrices, 3);
    assert_int_equal(trajectory.found.jump_count, 1);
    assert_int_equal(trajectory.found.jumps[0].point, 30);
    assert_int_equal(trajectory.found.jumps[0].file, 0);
    assert_int_equal(trajectory.found.flags[30], INTEGRITY_MIXED | INTEGRITY_JUMP);
    assert_int_equal(trajectory.found.flags[59] | trajectory.found.flags[31], 0);
    integrity_reset(&trajectory.found);
}

static void test_without_distances_both_of_a_share_are_named(void **state)
{
    struct trajectory trajectory;
    (void)state;
    make(&trajectory, 5);
    trajectory.matrices[1][4] = trajectory.matrices[3][4];
    for (int64_t i = 0; i < 5; i++) {
        move(&trajectory, i, NAN);
        seal(&trajectory, i);
    }
    find(&trajectory);
    assert_int_equal(trajectory.found.share_count, 2);
    assert_int_equal(trajectory.found.shares[0].file, -1);
    assert_int_equal(trajectory.found.shares[0].example, 4);
    assert_int_equal(trajectory.found.flags[1] & trajectory.found.flags[3], INTEGRITY_MIXED);
    integrity_reset(&trajectory.found);
}

static void test_matrices_that_never_change_are_no_share(void **state)
{
    struct trajectory trajectory;
    (void)state;
    make(&trajectory, 20);
    for (int64_t i = 0; i < 20; i++) {
        trajectory.matrices[i][2] = 7;
        seal(&trajectory, i);
    }
    find(&trajectory);
    assert_int_equal(trajectory.found.constant, 1);
    assert_int_equal(trajectory.found.share_count, 0);
    integrity_reset(&trajectory.found);
}

static void test_a_checkpoint_of_another_run_jumps_there_and_back(void **state)
{
    struct trajectory trajectory;
    (void)state;
    make(&trajectory, 40);
    move(&trajectory, 20, 1.4);
    move(&trajectory, 21, 0); /* the same again under another name */
    copy(&trajectory, 21, 20);
    move(&trajectory, 22, 1.4);
    find(&trajectory);
    assert_int_equal(trajectory.found.jump_count, 1);
    assert_int_equal(trajectory.found.jumps[0].point, 20);
    assert_int_equal(trajectory.found.jumps[0].file, -1);
    assert_true(fabs(trajectory.found.jumps[0].relative - 1.4) < 1e-12 && trajectory.found.jumps[0].expected < 0.02);
    integrity_reset(&trajectory.found);
}

/* Steps as Pythia has them: powers of two, then every thousand. Whether weights walk or go straight, nothing jumps. */
static void test_uneven_steps_are_neither_jumps_nor_gaps(void **state)
{
    (void)state;
    for (int straight = 0; straight < 2; straight++) {
        struct trajectory trajectory;
        make(&trajectory, 60);
        for (int64_t i = 0; i < 60; i++)
            trajectory.points[i].step = i == 0 ? 0 : i <= 10 ? INT64_C(1) << (i - 1) : 1000 * (i - 10);
        for (int64_t i = 1; i < 60; i++) {
            const double steps = (double)(trajectory.points[i].step - trajectory.points[i - 1].step);
            move(&trajectory, i, 1e-4 * (straight ? steps : sqrt(steps)) * (1 + 0.05 * sin((double)i)));
        }
        find(&trajectory);
        assert_int_equal(trajectory.found.jump_count, 0);
        assert_int_equal(trajectory.found.gap_count, 0);
        integrity_reset(&trajectory.found);
    }
}

/* One spacing unlike the others: a longer one where weights go straight, a shorter one where they walk. */
static void test_a_single_other_spacing_is_no_jump(void **state)
{
    (void)state;
    for (int straight = 0; straight < 2; straight++) {
        struct trajectory trajectory;
        make(&trajectory, 30);
        for (int64_t i = 15; i < 30; i++) trajectory.points[i].step += straight ? 14000 : -990;
        for (int64_t i = 1; i < 30; i++) {
            const double steps = (double)(trajectory.points[i].step - trajectory.points[i - 1].step);
            move(&trajectory, i, 1e-5 * (straight ? steps : sqrt(steps)) * (1 + 0.02 * sin((double)i)));
        }
        find(&trajectory);
        assert_int_equal(trajectory.found.jump_count, 0);
        integrity_reset(&trajectory.found);
    }
}

/* The score of one checkpoint whose neighbours' logarithms are 0.2 above and below their middle; 0: it does
 * not jump. */
static double score_of(double logarithm, double aside)
{
    struct trajectory trajectory;
    make(&trajectory, 40);
    for (int64_t i = 1; i < 40; i++) move(&trajectory, i, 0.01 * exp(i % 2 == 0 ? aside : -aside));
    move(&trajectory, 20, 0.01 * exp(logarithm));
    find(&trajectory);
    const double score = trajectory.found.jump_count > 0 ? trajectory.found.jumps[0].score : 0;
    for (int64_t i = 0; i < trajectory.found.jump_count; i++) assert_int_equal(trajectory.found.jumps[i].point, 20);
    integrity_reset(&trajectory.found);
    return score;
}

/* Sixteen neighbours, eight at each side of the middle: their median is the middle, their deviations' median 0.2, which
 * is 0.29652 of a normal distribution. Where they are all alike, the deviation counts as a fifth of log 2. */
static void test_a_jump_is_five_deviations_and_a_factor_of_two(void **state)
{
    (void)state;
    assert_true(score_of(1.47, 0.2) <= 0);
    assert_true(fabs(score_of(1.5, 0.2) - 1.5 / (1.4826 * 0.2)) < 1e-9);
    assert_true(score_of(log(1.98), 0) <= 0);
    assert_true(fabs(score_of(log(2.02), 0) - 5 * log(2.02) / log(2)) < 1e-9);
}

static void test_one_number_that_is_not_finite_is_flagged(void **state)
{
    struct trajectory trajectory;
    (void)state;
    make(&trajectory, 5);
    trajectory.points[3].not_finite = 1;
    find(&trajectory);
    for (int64_t i = 0; i < 5; i++) assert_int_equal(trajectory.found.flags[i], i == 3 ? INTEGRITY_NOT_FINITE : 0);
    integrity_reset(&trajectory.found);
}

/* Powers of two up to the end: the last spacing is twice the one before, as all of them are. */
static void test_spacings_that_grow_to_the_end_are_no_gaps(void **state)
{
    struct trajectory trajectory;
    (void)state;
    make(&trajectory, 10);
    for (int64_t i = 0; i < 10; i++) trajectory.points[i].step = i == 0 ? 0 : INT64_C(1) << (i - 1);
    find(&trajectory);
    assert_int_equal(trajectory.found.gap_count, 0);
    integrity_reset(&trajectory.found);
}

static void test_missing_steps_are_counted(void **state)
{
    struct trajectory trajectory;
    (void)state;
    make(&trajectory, 30);
    for (int64_t i = 10; i < 30; i++) trajectory.points[i].step += 3000;
    trajectory.points[29].measured = false;
    trajectory.points[29].step += 1000;
    find(&trajectory);
    assert_int_equal(trajectory.found.gap_count, 2);
    assert_int_equal(trajectory.found.gaps[0].after, 9);
    assert_int_equal(trajectory.found.gaps[0].before, 10);
    assert_int_equal(trajectory.found.gaps[0].missing, 3);
    assert_int_equal(trajectory.found.gaps[1].missing, 1);
    integrity_reset(&trajectory.found);
}

static void test_no_checkpoints_and_no_readings(void **state)
{
    struct trajectory trajectory;
    struct error error;
    (void)state;
    make(&trajectory, 3);
    assert_int_equal(integrity_find(NULL, 0, &trajectory.found, &error), STATUS_OK);
    integrity_reset(&trajectory.found);
    for (int64_t i = 0; i < 3; i++)
        trajectory.points[i] = (struct integrity_point){.step = -1, .previous = -1, .relative = NAN};
    find(&trajectory);
    for (int64_t i = 0; i < 3; i++) assert_int_equal(trajectory.found.flags[i], 0);
    integrity_reset(&trajectory.found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_wrong_with_a_healthy_run),
        cmocka_unit_test(test_revisions_with_the_final_weights_are_one_group),
        cmocka_unit_test(test_three_identical_branches),
        cmocka_unit_test(test_a_wrong_shard_is_named_and_its_owner_is_not),
        cmocka_unit_test(test_without_distances_both_of_a_share_are_named),
        cmocka_unit_test(test_matrices_that_never_change_are_no_share),
        cmocka_unit_test(test_a_checkpoint_of_another_run_jumps_there_and_back),
        cmocka_unit_test(test_uneven_steps_are_neither_jumps_nor_gaps),
        cmocka_unit_test(test_a_single_other_spacing_is_no_jump),
        cmocka_unit_test(test_a_jump_is_five_deviations_and_a_factor_of_two),
        cmocka_unit_test(test_one_number_that_is_not_finite_is_flagged),
        cmocka_unit_test(test_spacings_that_grow_to_the_end_are_no_gaps),
        cmocka_unit_test(test_missing_steps_are_counted),
        cmocka_unit_test(test_no_checkpoints_and_no_readings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
