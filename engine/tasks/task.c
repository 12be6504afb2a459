#include "tasks/task.h"

#include <string.h>

const struct task task_table[] = {
    {
        .name = "arc_challenge",
        .contexts = {"Question: {question}\nAnswer:"},
        .source = TASK_CHOICES_ARRAY,
        .choices = {"choices.text"},
        .gold = TASK_GOLD_LABEL,
        .gold_path = "answerKey",
        .gold_labels = "choices.label",
        .delimiter = " ",
        .normalised = true,
    },
    {
        .name = "arc_easy",
        .contexts = {"Question: {question}\nAnswer:"},
        .source = TASK_CHOICES_ARRAY,
        .choices = {"choices.text"},
        .gold = TASK_GOLD_LABEL,
        .gold_path = "answerKey",
        .gold_labels = "choices.label",
        .delimiter = " ",
        .normalised = true,
    },
    {
        .name = "openbookqa",
        .contexts = {"{question_stem}"},
        .source = TASK_CHOICES_ARRAY,
        .choices = {"choices.text"},
        .gold = TASK_GOLD_LABEL,
        .gold_path = "answerKey",
        .gold_labels = "choices.label",
        .delimiter = " ",
        .normalised = true,
    },
    {
        .name = "piqa",
        .contexts = {"Question: {goal}\nAnswer:"},
        .choices = {"{sol1}", "{sol2}"},
        .gold = TASK_GOLD_INTEGER,
        .gold_path = "label",
        .delimiter = " ",
        .spare = 1,
        .normalised = true,
    },
    {
        .name = "hellaswag",
        .contexts = {"{activity_label}: {ctx_a} {ctx_b|capitalise}"},
        .source = TASK_CHOICES_ARRAY,
        .choices = {"endings"},
        .clean = true,
        .gold = TASK_GOLD_INTEGER,
        .gold_path = "label",
        .delimiter = " ",
        .spare = 1,
        .normalised = true,
    },
    {
        .name = "winogrande",
        .contexts = {"{sentence|before}{option1}", "{sentence|before}{option2}"},
        .choices = {"{sentence|after}"},
        .gold = TASK_GOLD_INTEGER,
        .gold_path = "answer",
        .gold_base = 1,
        .delimiter = " ",
        .spare = 1,
    },
    {
        .name = "mathqa",
        .contexts = {"Question: {Problem}\nAnswer:"},
        .source = TASK_CHOICES_MATHQA,
        .choices = {"options"},
        .gold = TASK_GOLD_LETTER,
        .gold_path = "correct",
        .gold_labels = "abcde",
        .delimiter = " ",
        .normalised = true,
    },
    {
        .name = "pubmedqa",
        .contexts = {"Abstract: {CONTEXTS|lines}\nQuestion: {QUESTION}\nAnswer:"},
        .choices = {"yes", "no", "maybe"},
        .gold = TASK_GOLD_CHOICE,
        .gold_path = "final_decision",
        .delimiter = " ",
    },
    {
        .name = "sciq",
        .contexts = {"{support|lstrip}\nQuestion: {question}\nAnswer:"},
        .choices = {"{distractor1}", "{distractor2}", "{distractor3}", "{correct_answer}"},
        .gold = TASK_GOLD_ALWAYS,
        .gold_base = 3,
        .delimiter = " ",
        .normalised = true,
    },
    {
        .name = "social_iqa",
        .contexts = {"Q: {context} {question}\nA:"},
        .choices = {"{answerA}", "{answerB}", "{answerC}"},
        .gold = TASK_GOLD_INTEGER,
        .gold_path = "label",
        .gold_base = 1,
        .delimiter = " ",
        .spare = 1,
    },
    {
        .name = "commonsense_qa",
        .contexts = {"Question: {question|strip}\nA. {choices.text.0}\nB. {choices.text.1}\nC. {choices.text.2}\n"
                     "D. {choices.text.3}\nE. {choices.text.4}\nAnswer:"},
        .choices = {"A", "B", "C", "D", "E"},
        .gold = TASK_GOLD_LETTER,
        .gold_path = "answerKey",
        .gold_labels = "ABCDE",
        .delimiter = " ",
        .spare = 1,
    },
    {
        .name = "mmlu",
        .description = "The following are multiple choice questions (with answers) about {subject|words}.\n\n",
        .contexts = {"{question|strip}\nA. {choices.0}\nB. {choices.1}\nC. {choices.2}\nD. {choices.3}\nAnswer:"},
        .choices = {"A", "B", "C", "D"},
        .gold = TASK_GOLD_INTEGER,
        .gold_path = "answer",
        .delimiter = " ",
        .subject = "subject",
        .sampler = TASK_SAMPLER_FIRST,
    },
};
const size_t task_count = sizeof task_table / sizeof task_table[0];

const char *const task_names[] = {"arc_challenge",  "arc_easy", "openbookqa", "piqa", "hellaswag",
                                  "winogrande",     "mathqa",   "pubmedqa",   "sciq", "social_iqa",
                                  "commonsense_qa", "mmlu",     NULL};
_Static_assert(sizeof task_names / sizeof task_names[0] == sizeof task_table / sizeof task_table[0] + 1,
               "a name for each task");

/* The groups in which the harness aggregates mmlu. */
static const struct {
    const char *group, *subject;
} subjects[] = {
    {"stem", "abstract_algebra"},
    {"stem", "anatomy"},
    {"stem", "astronomy"},
    {"stem", "college_biology"},
    {"stem", "college_chemistry"},
    {"stem", "college_computer_science"},
    {"stem", "college_mathematics"},
    {"stem", "college_physics"},
    {"stem", "computer_security"},
    {"stem", "conceptual_physics"},
    {"stem", "electrical_engineering"},
    {"stem", "elementary_mathematics"},
    {"stem", "high_school_biology"},
    {"stem", "high_school_chemistry"},
    {"stem", "high_school_computer_science"},
    {"stem", "high_school_mathematics"},
    {"stem", "high_school_physics"},
    {"stem", "high_school_statistics"},
    {"stem", "machine_learning"},
    {"other", "business_ethics"},
    {"other", "clinical_knowledge"},
    {"other", "college_medicine"},
    {"other", "global_facts"},
    {"other", "human_aging"},
    {"other", "management"},
    {"other", "marketing"},
    {"other", "medical_genetics"},
    {"other", "miscellaneous"},
    {"other", "nutrition"},
    {"other", "professional_accounting"},
    {"other", "professional_medicine"},
    {"other", "virology"},
    {"social_sciences", "econometrics"},
    {"social_sciences", "high_school_geography"},
    {"social_sciences", "high_school_government_and_politics"},
    {"social_sciences", "high_school_macroeconomics"},
    {"social_sciences", "high_school_microeconomics"},
    {"social_sciences", "high_school_psychology"},
    {"social_sciences", "human_sexuality"},
    {"social_sciences", "professional_psychology"},
    {"social_sciences", "public_relations"},
    {"social_sciences", "security_studies"},
    {"social_sciences", "sociology"},
    {"social_sciences", "us_foreign_policy"},
    {"humanities", "formal_logic"},
    {"humanities", "high_school_european_history"},
    {"humanities", "high_school_us_history"},
    {"humanities", "high_school_world_history"},
    {"humanities", "international_law"},
    {"humanities", "jurisprudence"},
    {"humanities", "logical_fallacies"},
    {"humanities", "moral_disputes"},
    {"humanities", "moral_scenarios"},
    {"humanities", "philosophy"},
    {"humanities", "prehistory"},
    {"humanities", "professional_law"},
    {"humanities", "world_religions"},
};

const struct task *task_find(const char *name)
{
    for (size_t i = 0; i < task_count; i++)
        if (strcmp(task_table[i].name, name) == 0) return &task_table[i];
    return NULL;
}

const char *task_subject_group(const char *subject)
{
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++)
        if (strcmp(subjects[i].subject, subject) == 0) return subjects[i].group;
    return NULL;
}
