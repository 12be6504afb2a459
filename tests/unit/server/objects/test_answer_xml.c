#include "unit.h"

#include "objects/answer_xml.h"
#include "objects/objects_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "PATH=TEXT;" for each element, "PATH;" for one without a text. */
static enum status note(void *context, const char *path, const char *text, struct error *error)
{
    char *out = context;
    const size_t used = strlen(out);
    (void)error;
    (void)snprintf(out + used, 1000 - used, text != NULL ? "%s=%s;" : "%s;", path, text);
    return STATUS_OK;
}

static enum status read_text(const char *text, char out[1000])
{
    struct error error;
    out[0] = '\0';
    return answer_xml_read(text, strlen(text), note, out, &error);
}

static void test_elements_come_with_their_path(void **state)
{
    (void)state;
    char found[1000];
    assert_int_equal(read_text("<?xml version='1.0'?><a xmlns='x'><b>1 &amp; 2</b> <p:c><d/></p:c></a>", found),
                     STATUS_OK);
    assert_string_equal(found, "a/b=1 & 2;a/c/d=;a/c;a;");
}

static void test_what_is_no_answer_is_refused(void **state)
{
    (void)state;
    char found[1000], deep[4000] = "", wide[9000];
    static const char *const wrong[] = {"",
                                        "{}",
                                        "<a>",
                                        "<a></b>",
                                        "<a/><b/>",
                                        "<a>\xff</a>",
                                        "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
                                        "<!DOCTYPE a><a/>"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(read_text(wrong[i], found), STATUS_CORRUPT);
    for (int i = 0; i < 200; i++) strncat(deep, "<abc>", sizeof deep - strlen(deep) - 1);
    assert_int_equal(read_text(deep, found), STATUS_CORRUPT);
    memset(wide, 'x', sizeof wide);
    memcpy(wide, "<a>", 3);
    memcpy(wide + sizeof wide - 5, "</a>", 5);
    assert_int_equal(read_text(wide, found), STATUS_CORRUPT);
}

static void test_a_refusal_says_code_and_region(void **state)
{
    (void)state;
    struct transfer_head head;
    static const char text[] = "<Error><Code>PermanentRedirect</Code><Message>go</Message><Region>x-1</Region></Error>";
    transfer_head_clear(&head);
    answer_xml_refusal(text, sizeof text - 1, &head);
    assert_string_equal(head.code, "PermanentRedirect");
    assert_string_equal(head.message, "go");
    assert_string_equal(head.region, "x-1");
    transfer_head_clear(&head);
    answer_xml_refusal("<Error><Code>A", 14, &head);
    assert_string_equal(head.code, "");
    answer_xml_refusal("", 0, &head);
    static const char roles[] = "<ErrorResponse xmlns=\"x\"><Error><Type>Sender</Type><Code>AccessDenied</Code>"
                                "<Message>n\xc3\xb6\n</Message></Error><RequestId>1</RequestId></ErrorResponse>";
    answer_xml_refusal(roles, sizeof roles - 1, &head);
    assert_string_equal(head.code, "AccessDenied");
    assert_string_equal(head.message, "n???");
}

static void test_places_are_read_or_refused(void **state)
{
    (void)state;
    struct objects_place place;
    struct error error;
    char text[OBJECTS_PLACE_MOST + 8];
    static const struct {
        const char *text, *bucket, *key;
    } good[] = {{"s3://lab", "lab", ""},
                {"s3://lab/", "lab", ""},
                {"s3://lab.a-b/x/y z//", "lab.a-b", "x/y z"},
                {"s3://lab/.hidden/...", "lab", ".hidden/..."}};
    static const char *const wrong[] = {"s3:/lab",         "s3://",        "s3://ab",     "s3://lab//x",
                                        "s3://lab/a/../b", "s3://lab/./b", "s3://la b/x", "s3://lab/\x02",
                                        "s3://-lab",       "s3://lab-/x",  "s3://l..b/x", "lab/x"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(objects_place_read(good[i].text, "/path", &place, &error), STATUS_OK);
        assert_string_equal(place.bucket, good[i].bucket);
        assert_string_equal(place.key, good[i].key);
    }
    objects_place_write(&place, text, sizeof text);
    assert_string_equal(text, "s3://lab/.hidden/...");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(objects_place_read(wrong[i], "/path", &place, &error), STATUS_INVALID);
        assert_string_equal(error.pointer, "/path");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements_come_with_their_path),
        cmocka_unit_test(test_what_is_no_answer_is_refused),
        cmocka_unit_test(test_a_refusal_says_code_and_region),
        cmocka_unit_test(test_places_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
