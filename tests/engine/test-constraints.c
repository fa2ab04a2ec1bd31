/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Answers that are held to schemas, regular expressions and grammars, with the shipped model: every
 * one that ends is valid, whatever the sampling, alone and beside others; and what can't be held to
 * is refused before the call begins. */

#include "engine/llm-engine-private.h"
#include "engine-rig.h"

#include <json-glib/json-glib.h>
#include <string.h>

#include "common/llmsvc-error.h"

#define PERSON                                                                                   \
  "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 12}, " \
  "\"age\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 120}, \"tags\": {\"type\": " \
  "\"array\", \"items\": {\"enum\": [\"red\", \"blue\"]}, \"minItems\": 1, \"maxItems\": 3}}, " \
  "\"required\": [\"name\", \"age\", \"tags\"], \"additionalProperties\": false}"
#define TREE                                                                                     \
  "{\"$ref\": \"#/$defs/node\", \"$defs\": {\"node\": {\"type\": \"object\", \"properties\": " \
  "{\"label\": {\"type\": \"string\"}, \"children\": {\"type\": \"array\", \"items\": {\"$ref\": " \
  "\"#/$defs/node\"}}}, \"required\": [\"label\", \"children\"], \"additionalProperties\": false}}}"

static const char prompt[] = "Find me a restaurant in San Jose.";

static void
check_person (JsonNode *node)
{
  JsonObject *object = json_node_get_object (node);
  JsonArray *tags = json_object_get_array_member (object, "tags");
  gint64 age = json_object_get_int_member (object, "age");

  g_assert_cmpuint (json_object_get_size (object), ==, 3);
  g_assert_cmpint (g_utf8_strlen (json_object_get_string_member (object, "name"), -1), <=, 12);
  g_assert_cmpint (json_node_get_value_type (json_object_get_member (object, "age")), ==,
                   G_TYPE_INT64);
  g_assert_true (age >= 0 && age <= 120);
  g_assert_true (json_array_get_length (tags) >= 1 && json_array_get_length (tags) <= 3);
  for (guint i = 0; i < json_array_get_length (tags); i++)
    g_assert_true (g_str_equal (json_array_get_string_element (tags, i), "red")
                   || g_str_equal (json_array_get_string_element (tags, i), "blue"));
}

static void
check_tree (JsonNode *node)
{
  JsonObject *object = json_node_get_object (node);
  JsonArray *children = json_object_get_array_member (object, "children");

  g_assert_cmpuint (json_object_get_size (object), ==, 2);
  g_assert_nonnull (json_object_get_string_member (object, "label"));
  for (guint i = 0; i < json_array_get_length (children); i++)
    check_tree (json_array_get_element (children, i));
}

static void
check_object (JsonNode *node)
{
  g_assert_true (JSON_NODE_HOLDS_OBJECT (node));
}

static void
check_numbers (JsonNode *node)
{
  JsonArray *array = json_node_get_array (node);

  g_assert_cmpuint (json_array_get_length (array), >=, 2);
  g_assert_cmpuint (json_array_get_length (array), <=, 3);
}

static const struct
{
  const char *options;       /* without the closing brace */
  void (*check) (JsonNode *node);
} formats[] = {
  { "{'response-format': <'json-schema'>, 'schema': <'" PERSON "'>", check_person },
  { "{'schema': <'" TREE "'>", check_tree },
  { "{'response-format': <'json'>", check_object },
  { "{'schema': <'{\"items\": {\"type\": \"integer\"}, \"type\": \"array\", \"uniqueItems\": true, "
    "\"minItems\": 2, \"maxItems\": 3}'>, 'strict': <false>", check_numbers },
};

static char *
make_options (guint       format,
              double      temperature,
              guint       seed,
              const char *more)
{
  return g_strdup_printf ("%s, 'temperature': <%.1f>, 'seed': <uint64 %u>, "
                          "'max-tokens': <uint32 70>%s}", formats[format].options, temperature,
                          seed, more);
}

static void
check_answer (Answer *answer,
              guint   format)
{
  g_autoptr(JsonParser) parser = json_parser_new ();
  g_autoptr(GError) error = NULL;

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_test_message ("%s", answer->text);
  g_assert_cmpstr (result_string (answer, "finish-reason"), ==, "stop");
  json_parser_load_from_data (parser, answer->text, -1, &error);
  g_assert_no_error (error);
  formats[format].check (json_parser_get_root (parser));
}

static void
test_valid (Fixture      *fixture,
            gconstpointer data)
{
  for (guint format = 0; format < G_N_ELEMENTS (formats); format++)
    for (guint i = 0; i < 4; i++)
      {
        g_autofree char *options = make_options (format, i == 0 ? 0 : 1.2, i, "");
        g_autoptr(Answer) answer = begin_complete (fixture, prompt, options);

        check_answer (answer, format);
      }
}

/* Several at once, each with its own constraint or none: each says what it says alone. */
static void
test_beside_others (Fixture      *fixture,
                    gconstpointer data)
{
  Answer *answers[G_N_ELEMENTS (formats) * 2 + 1];
  g_autofree char *alone = complete (fixture, prompt, GREEDY);
  char *texts[G_N_ELEMENTS (formats)];

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    {
      g_autofree char *options = make_options (i, 1.2, i, "");

      texts[i] = complete (fixture, prompt, options);
    }
  for (guint i = 0; i < G_N_ELEMENTS (answers) - 1; i++)
    {
      g_autofree char *options = make_options (i / 2, 1.2, i / 2, "");

      answers[i] = begin_complete (fixture, prompt, options);
    }
  answers[G_N_ELEMENTS (answers) - 1] = begin_complete (fixture, prompt, GREEDY);
  for (guint i = 0; i < G_N_ELEMENTS (answers) - 1; i++)
    {
      check_answer (answers[i], i / 2);
      g_assert_cmpstr (answers[i]->text, ==, texts[i / 2]);
      answer_free (answers[i]);
    }
  WAIT_FOR (answers[G_N_ELEMENTS (answers) - 1]->is_finished);
  g_assert_cmpstr (answers[G_N_ELEMENTS (answers) - 1]->text, ==, alone);
  answer_free (answers[G_N_ELEMENTS (answers) - 1]);
  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    g_free (texts[i]);
}

static void
test_other_formats (Fixture      *fixture,
                    gconstpointer data)
{
  g_autofree char *regex =
    complete (fixture, prompt, "{'regex': <'\\\\d{3}-\\\\d{4}'>, 'temperature': <1.2>}");
  g_autofree char *grammar =
    complete (fixture, prompt, "{'response-format': <'grammar'>, 'temperature': <1.2>, 'grammar': "
                               "<'root ::= \"yes\" | \"no\"'>}");

  g_assert_true (g_regex_match_simple ("^[0-9]{3}-[0-9]{4}$", regex, 0, 0));
  g_assert_true (g_str_equal (grammar, "yes") || g_str_equal (grammar, "no"));
}

/* In a context, turn after turn; a stop string ends the answer as ever. */
static void
test_context (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autofree char *options = make_options (0, 1.2, 5, "");
  g_autofree char *stopped = make_options (0, 1.2, 5, ", 'stop': <['\"age\"']>");
  g_autoptr(Answer) first = begin_ask (fixture, context, prompt, options);
  g_autoptr(Answer) second = NULL;
  g_autoptr(Answer) third = NULL;

  check_answer (first, 0);
  second = begin_ask (fixture, context, "And another one?", options);
  check_answer (second, 0);
  third = begin_ask (fixture, context, "And another one?", stopped);
  WAIT_FOR (third->is_finished);
  g_assert_no_error (third->error);
  g_assert_true (g_str_has_prefix (third->text, "{"));
  g_assert_null (strstr (third->text, "age"));
}

static void
test_refused (Fixture      *fixture,
              gconstpointer data)
{
  static const struct
  {
    const char *options;
    const char *message;
  } cases[] = {
    { "{'schema': <'{\"type\": \"array\", \"uniqueItems\": true}'>}", "schema: #: uniqueItems" },
    { "{'schema': <'{\"type\": \"strin\"}'>, 'strict': <false>}", "schema: #/type: " },
    { "{'schema': <'{\"type\": \"strin\"}'>}", "schema: #/type: " },
    { "{'schema': <'{'>}", "schema: it is no JSON" },
    { "{'response-format': <'json-schema'>}", "needs the option “schema”" },
    { "{'response-format': <'regex'>}", "needs the option “regex”" },
    { "{'response-format': <'json'>, 'schema': <'{}'>}", "schema: it is for" },
    { "{'response-format': <'text'>, 'grammar': <'root ::= \"a\"'>}", "grammar: it is for" },
    { "{'schema': <'{}'>, 'regex': <'a'>}", "regex: it is for" },
    { "{'regex': <'a('>}", "regex: the regular expression" },
    { "{'grammar': <'root ::= '>, 'max-tokens': <uint32 2>, 'response-format': <'regex'>}",
      "regex" },
    { "{'regex': <'x{4000}'>, 'max-tokens': <uint32 10>}", "max-tokens: 10 are too few" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(Answer) answer = begin_complete (fixture, prompt, cases[i].options);

      WAIT_FOR (answer->is_finished);
      g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
      g_test_message ("%s", answer->error->message);
      g_assert_nonnull (strstr (answer->error->message, cases[i].message));
      g_assert_true (answer->text == NULL || *answer->text == 0);
    }
}

/* A grammar that leaves no token in the middle of its answer costs its sender alone: the weights are
 * not at fault, and stay loaded. */
static void
test_nothing_left (Fixture      *fixture,
                   gconstpointer data)
{
  g_autoptr(GString) grammar = g_string_new ("root ::= r0 \"b\"\nnothing ::= \"\"\n");
  g_autofree char *options = NULL;
  g_autoptr(Answer) answer = NULL;

  for (guint i = 0; i < 300; i++)
    g_string_append_printf (grammar, "r%u ::= r%u nothing\n", i, i + 1);
  g_string_append (grammar, "r300 ::= \"a\"");
  options = g_strdup_printf ("{'grammar': <'%s'>, 'max-tokens': <uint32 8>}", grammar->str);
  answer = begin_complete (fixture, prompt, options);
  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
  g_test_message ("%s", answer->error->message);
  g_assert_nonnull (strstr (answer->error->message, "what it is held to"));
  g_free (complete (fixture, prompt, GREEDY));
  g_assert_false (fixture->engine->use.is_suspect);
  g_assert_cmpuint (fixture->engine->counters.model_unloads, ==, 0);
}

/* Compiling ends with the caller, and of one application's grammars, one after the other, those that
 * wait as well; meanwhile others are answered. */
static void
test_caller_leaves (Fixture      *fixture,
                    gconstpointer data)
{
  g_autoptr(LlmCaller) other = llm_caller_new (1000, "org.example.Other", ":1.2", LLM_CALLER_HOST);
  g_autoptr(LlmCaller) first = g_steal_pointer (&fixture->caller);
  Answer *answers[12];
  guint n_finished = 0;

  fixture->caller = llm_caller_ref (first);
  for (guint i = 0; i < G_N_ELEMENTS (answers); i++)
    {
      g_autofree char *options =
        g_strdup_printf ("{'grammar': <'root ::= (((\"a\"*){10000}){8}) | \"a\"{40} | \"%u\"'>}", i);

      answers[i] = begin_complete (fixture, prompt, options);
    }
  /* the other one's does not wait for all of them */
  llm_caller_unref (fixture->caller);
  fixture->caller = llm_caller_ref (other);
  g_free (complete (fixture, prompt, "{'regex': <'[d-f]{3}'>}"));
  for (guint i = 0; i < G_N_ELEMENTS (answers); i++)
    n_finished += answers[i]->is_finished;
  g_test_message ("%u of the others were refused meanwhile", n_finished);
  g_assert_cmpuint (n_finished, <, G_N_ELEMENTS (answers) / 2);

  llm_engine_caller_gone (fixture->engine, first->connection);
  for (guint i = 0; i < G_N_ELEMENTS (answers); i++)
    {
      WAIT_FOR (answers[i]->is_finished);
      g_assert_nonnull (answers[i]->error);
    }
  g_assert_error (answers[G_N_ELEMENTS (answers) - 1]->error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED);
  for (guint i = 0; i < G_N_ELEMENTS (answers); i++)
    answer_free (answers[i]);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, test) g_test_add (name, Fixture, NULL, set_up, test, tear_down)
  ADD ("/engine/constraints/valid", test_valid);
  ADD ("/engine/constraints/beside-others", test_beside_others);
  ADD ("/engine/constraints/other-formats", test_other_formats);
  ADD ("/engine/constraints/context", test_context);
  ADD ("/engine/constraints/refused", test_refused);
  ADD ("/engine/constraints/nothing-left", test_nothing_left);
  ADD ("/engine/constraints/caller-leaves", test_caller_leaves);
  return g_test_run ();
}
