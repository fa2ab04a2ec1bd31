/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Answers that call tools, with the shipped model, whose template knows none: every call is of a
 * tool that there is, with arguments that keep to its schema, whatever the sampling; results go
 * back; and what is wrong is refused before anything is generated. */

#include "engine-rig.h"

#include <json-glib/json-glib.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "engine/calls/llm-context-calls.h"

#define TOOLS                                                                                     \
  "[{\"type\": \"function\", \"function\": {\"name\": \"FindRestaurants\", \"description\": "       \
  "\"Restaurants of a city\", \"parameters\": {\"type\": \"object\", \"properties\": {\"category\": " \
  "{\"enum\": [\"Italian\", \"Mexican\", \"Thai\"]}, \"location\": {\"type\": \"string\", "         \
  "\"maxLength\": 20}, \"seats\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 12}}, "      \
  "\"required\": [\"category\", \"location\"]}}}, "                                                \
  "{\"type\": \"function\", \"function\": {\"name\": \"GetAlarms\"}}, "                            \
  "{\"type\": \"function\", \"function\": {\"name\": \"AddAlarm\", \"parameters\": {\"properties\": "  \
  "{\"new_alarm_time\": {\"type\": \"string\", \"pattern\": \"^([01][0-9]|2[0-3]):[0-5][0-9]$\"}}, "  \
  "\"required\": [\"new_alarm_time\"]}}}]"

static const char *const prompts[] = { "Find me an Italian restaurant in San Jose.",
                                       "Please show me my alarms.", "Wake me at seven.",
                                       "What is the weather like?" };

static char *
make_options (const char *choice,
              double      temperature,
              guint       seed,
              const char *more)
{
  return g_strdup_printf ("{'tools': <'%s'>, 'tool-choice': <'%s'>, 'temperature': <%.1f>, 'seed': "
                          "<uint64 %u>%s}", TOOLS, choice, temperature, seed, more);
}

static void
check_call (JsonObject *call,
            const char *wanted)
{
  JsonObject *function = json_object_get_object_member (call, "function");
  const char *name = json_object_get_string_member (function, "name");
  g_autoptr(GError) error = NULL;
  g_autoptr(JsonParser) parser = json_parser_new ();
  JsonObject *arguments;

  json_parser_load_from_data (parser, json_object_get_string_member (function, "arguments"), -1,
                              &error);
  g_assert_no_error (error);
  arguments = json_node_get_object (json_parser_get_root (parser));
  g_assert_cmpstr (json_object_get_string_member (call, "type"), ==, "function");
  g_assert_cmpuint (strlen (json_object_get_string_member (call, "id")), ==, 9);
  if (wanted != NULL)
    g_assert_cmpstr (name, ==, wanted);
  if (g_str_equal (name, "FindRestaurants"))
    {
      const char *category = json_object_get_string_member (arguments, "category");
      gboolean has_seats = json_object_has_member (arguments, "seats");
      gint64 seats = has_seats ? json_object_get_int_member (arguments, "seats") : 1;

      g_assert_true (g_str_equal (category, "Italian") || g_str_equal (category, "Mexican")
                     || g_str_equal (category, "Thai"));
      g_assert_cmpint (g_utf8_strlen (json_object_get_string_member (arguments, "location"), -1), <=,
                       20);
      g_assert_true (seats >= 1 && seats <= 12);
      g_assert_cmpuint (json_object_get_size (arguments), ==, has_seats ? 3 : 2);
    }
  else if (g_str_equal (name, "AddAlarm"))
    {
      g_assert_true (g_regex_match_simple (
        "^([01][0-9]|2[0-3]):[0-5][0-9]$",
        json_object_get_string_member (arguments, "new_alarm_time"), 0, 0));
      g_assert_cmpuint (json_object_get_size (arguments), ==, 1);
    }
  else
    {
      g_assert_cmpstr (name, ==, "GetAlarms");
      g_assert_cmpuint (json_object_get_size (arguments), ==, 0);
    }
}

/* Returns how many calls there are. @wanted: (nullable): the only tool. */
static guint
check_answer (Answer     *answer,
              const char *wanted)
{
  g_autoptr(JsonNode) root = NULL;
  JsonArray *calls;
  const char *text = NULL;

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_variant_lookup (answer->results, "tool-calls", "&s", &text);
  g_test_message ("“%s” %s", answer->text, text);
  g_assert_null (strstr (answer->text, "tool_call"));
  if (text == NULL)
    return 0;
  root = json_from_string (text, NULL);
  g_assert_nonnull (root);
  calls = json_node_get_array (root);
  for (guint i = 0; i < json_array_get_length (calls); i++)
    check_call (json_array_get_object_element (calls, i), wanted);
  return json_array_get_length (calls);
}

static void
test_valid (Fixture      *fixture,
            gconstpointer data)
{
  guint n_free = 0;

  for (guint i = 0; i < 4 * G_N_ELEMENTS (prompts); i++)
    {
      const char *prompt = prompts[i / 4];
      double temperature = i % 4 == 0 ? 0 : 1.2;
      const char *more = i % 4 == 3 ? ", 'max-tokens': <uint32 60>" : ", 'max-tokens': <uint32 200>";
      g_autofree char *free_options = make_options ("auto", temperature, i, more);
      g_autofree char *required = make_options ("required", temperature, i, more);
      g_autofree char *named = make_options ("AddAlarm", temperature, i, more);
      g_autofree char *none = make_options ("none", temperature, i, more);
      g_autoptr(Answer) a = begin_complete (fixture, prompt, free_options);
      g_autoptr(Answer) b = begin_complete (fixture, prompt, required);
      g_autoptr(Answer) c = begin_complete (fixture, prompt, named);
      g_autoptr(Answer) d = begin_complete (fixture, prompt, none);

      n_free += check_answer (a, NULL);
      g_assert_cmpuint (check_answer (b, NULL), >=, 1);
      g_assert_cmpstr (b->text, ==, "");
      g_assert_cmpuint (check_answer (c, "AddAlarm"), ==, 1);
      g_assert_cmpuint (check_answer (d, NULL), ==, 0);
    }
  g_assert_cmpuint (n_free, >, 0);
}

/* One call where there must not be several, also when the model would go on. */
static void
test_parallel (Fixture      *fixture,
               gconstpointer data)
{
  for (guint i = 0; i < 8; i++)
    {
      g_autofree char *options =
        make_options ("required", 1.5, i, ", 'parallel-tools': <false>, 'max-tokens': <uint32 200>");
      g_autoptr(Answer) answer = begin_complete (fixture, prompts[0], options);

      g_assert_cmpuint (check_answer (answer, NULL), ==, 1);
    }
}

/* A raw prompt says of tools what it says: they only hold the answer. */
static void
test_raw (Fixture      *fixture,
          gconstpointer data)
{
  static const char prompt[] =
    "<|im_start|>system\nYou are a helpful assistant. Today is 2019-03-01. You can call these "
    "functions:\n# Alarm_1\nGetAlarms()\nAddAlarm(new_alarm_time, new_alarm_name?)<|im_end|>\n"
    "<|im_start|>user\nPlease show me my alarms.<|im_end|>\n<|im_start|>assistant\n";
  g_autofree char *options = make_options ("GetAlarms", 0, 1, ", 'raw': <true>");
  g_autoptr(Answer) answer = begin_complete (fixture, prompt, options);
  g_autoptr(Answer) plain =
    begin_complete (fixture, prompt, "{'raw': <true>, 'max-tokens': <uint32 1>}");

  g_assert_cmpuint (check_answer (answer, "GetAlarms"), ==, 1);
  WAIT_FOR (plain->is_finished);
  g_assert_cmpuint (result_uint (answer, "prompt-tokens"), ==,
                    result_uint (plain, "prompt-tokens"));
}

static Answer *
begin_generate (Fixture    *fixture,
                LlmContext *context,
                const char *messages,
                const char *options)
{
  Answer *answer = answer_new ();
  g_autoptr(LlmCallOptions) parsed = parse_options (options, LLMSVC_CALL_GENERATE);
  g_autoptr(GAsyncResult) result = NULL;

  llm_context_generate_async (context, fixture->caller, g_variant_new_parsed (messages), parsed,
                              answer->sink, on_result, &result);
  WAIT_FOR (result != NULL);
  answer->generation = g_task_propagate_pointer (G_TASK (result), &answer->error);
  if (answer->generation == NULL)
    answer->is_finished = TRUE;
  return answer;
}

/* A question, a call, its result, an answer; with other tools all is rendered anew. */
static void
test_context (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{'system': <'You are a helpful assistant.'>}");
  g_autofree char *required = make_options ("required", 0, 1, ", 'parallel-tools': <false>");
  g_autofree char *none = make_options ("none", 0, 1, ", 'max-tokens': <uint32 20>");
  g_autoptr(Answer) call = begin_ask (fixture, context, prompts[1], required);
  g_autoptr(Answer) answer = NULL;
  g_autoptr(Answer) other = NULL;
  g_autoptr(GVariant) messages = NULL;
  const char *role, *text, *calls, *kept;
  GVariant *extras;

  g_assert_cmpuint (check_answer (call, NULL), ==, 1);
  answer = begin_generate (fixture, context,
                           "[('tool', '[{\"alarm_time\": \"07:00\"}]', {'tool-call-id': <'x'>, "
                           "'name': <'GetAlarms'>})]", none);
  g_assert_cmpuint (check_answer (answer, NULL), ==, 0);
  g_assert_cmpstr (answer->text, !=, "");
  /* what was computed for the call counts again */
  g_assert_cmpuint (result_uint (answer, "cached-tokens"), >=,
                    result_uint (call, "prompt-tokens") + result_uint (call, "output-tokens") - 2);

  messages = get_messages (context);
  g_assert_cmpuint (g_variant_n_children (messages), ==, 5);
  g_variant_get_child (messages, 2, "(&s&s@a{sv})", &role, &text, &extras);
  g_assert_cmpstr (role, ==, "assistant");
  g_assert_cmpstr (text, ==, "");
  g_assert_true (g_variant_lookup (extras, "tool-calls", "&s", &kept));
  g_assert_true (g_variant_lookup (call->results, "tool-calls", "&s", &calls));
  g_assert_cmpstr (kept, ==, calls);
  g_variant_unref (extras);

  other = begin_ask (fixture, context, "Thank you!", "{'max-tokens': <uint32 10>}");
  check_answer (other, NULL);
  g_assert_cmpuint (result_uint (other, "prompt-tokens"), <,
                    result_uint (answer, "prompt-tokens") + result_uint (answer, "output-tokens"));
}

static guint
count_tokens (Fixture    *fixture,
              const char *options,
              GError    **error)
{
  g_autoptr(LlmCallOptions) parsed = parse_options (options, LLMSVC_CALL_COUNT_TOKENS);
  g_autoptr(GAsyncResult) result = NULL;
  guint tokens = 0;

  llm_engine_count_tokens_async (fixture->engine, fixture->caller, user_message ("Hello"), parsed,
                                 on_result, &result);
  WAIT_FOR (result != NULL);
  return take_count (result, &tokens, error) ? tokens : 0;
}

static void
test_count (Fixture      *fixture,
            gconstpointer data)
{
  g_autofree char *options = make_options ("auto", 0, 1, "");
  g_autofree char *few = make_options ("auto", 0, 1, ", 'max-tokens': <uint32 1>");
  g_autoptr(GError) error = NULL;
  guint without = count_tokens (fixture, "{}", &error);
  guint with = count_tokens (fixture, options, &error);
  g_autoptr(Answer) answer = begin_complete (fixture, "Hello", few);
  g_autoptr(Answer) plain = begin_complete (fixture, "Hello", "{'max-tokens': <uint32 1>}");

  g_assert_no_error (error);
  g_assert_cmpuint (with, >, without + 100);
  WAIT_FOR (answer->is_finished && plain->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpuint (with - without, ==,
                    result_uint (answer, "prompt-tokens") - result_uint (plain, "prompt-tokens"));
  g_assert_cmpuint (count_tokens (fixture, "{'tools': <'[]'>}", &error), ==, 0);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
}

/* A tool of which a part can't be held to. */
#define LOOSE(more)                                                                               \
  "[{\"function\": {\"name\": \"tag\", \"parameters\": {\"properties\": {\"tags\": {\"type\": \"array\","  \
  "\"items\": {\"type\": \"integer\"}, \"maxItems\": 3, \"uniqueItems\": true}}, "                      \
  "\"required\": [\"tags\"]}" more "}}]"
#define LOOSE_AT "tools: #/0/function/parameters/properties/tags"

/* It is left out and named; the rest is held to. */
static void
test_unheld (Fixture      *fixture,
             gconstpointer data)
{
  g_autoptr(Answer) answer = begin_complete (
    fixture, prompts[0], "{'tools': <'" LOOSE ("") "'>, 'tool-choice': <'required'>}");
  g_autoptr(Answer) other =
    begin_complete (fixture, prompts[0], "{'tools': <'" TOOLS "'>, 'tool-choice': <'required'>}");
  g_autofree const char **unheld = NULL;

  WAIT_FOR (answer->is_finished && other->is_finished);
  g_assert_no_error (answer->error);
  g_assert_true (g_variant_lookup (answer->results, "unheld", "^a&s", &unheld));
  g_assert_cmpuint (g_strv_length ((char **) unheld), ==, 1);
  g_assert_true (g_str_has_prefix (
    unheld[0], "tag: #/0/function/parameters/properties/tags: uniqueItems is supported"));
  g_assert_false (g_variant_lookup (other->results, "unheld", "^a&s", NULL));
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
    { "{'tools': <'nonsense'>}", "tools: it is no JSON" },
    { "{'tools': <'[{\"function\": {\"name\": \"a\", \"parameters\": {\"required\": 5}}}]'>}",
      "tools: #/0/function/parameters/required: " },
    { "{'tools': <'" LOOSE (", \"strict\": true") "'>}", LOOSE_AT ": uniqueItems" },
    { "{'tools': <'" LOOSE ("") "'>, 'strict': <true>}", LOOSE_AT ": uniqueItems" },
    { "{'tools': <'" TOOLS "'>, 'tool-choice': <'GetAlarm'>}", "tool-choice: " },
    { "{'tool-choice': <'required'>}", "tool-choice: " },
    { "{'tools': <'" TOOLS "'>, 'response-format': <'json'>}", "response-format: " },
    { "{'tools': <'" TOOLS "'>, 'schema': <'{}'>}", "response-format: " },
    { "{'tools': <'" TOOLS "'>, 'tool-choice': <'required'>, 'max-tokens': <uint32 2>}",
      "max-tokens: 2 are too few" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(Answer) answer = begin_complete (fixture, prompts[0], cases[i].options);

      WAIT_FOR (answer->is_finished);
      g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
      g_test_message ("%s", answer->error->message);
      g_assert_true (g_str_has_prefix (answer->error->message, cases[i].message));
      g_assert_true (answer->text == NULL || *answer->text == 0);
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, test) g_test_add (name, Fixture, NULL, set_up, test, tear_down)
  ADD ("/engine/tools/valid", test_valid);
  ADD ("/engine/tools/parallel", test_parallel);
  ADD ("/engine/tools/raw", test_raw);
  ADD ("/engine/tools/context", test_context);
  ADD ("/engine/tools/count", test_count);
  ADD ("/engine/tools/unheld", test_unheld);
  ADD ("/engine/tools/refused", test_refused);
  return g_test_run ();
}
