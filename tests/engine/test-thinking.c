/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reasoning before answers, with the shipped model under a template that thinks: it is a part of its
 * own, its budget is kept, what the answer is held to applies behind it, and later prompts have it
 * only where the template says so. */

#include "engine-rig.h"

#include <json-glib/json-glib.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "engine/calls/llm-context-calls.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-template.h"

#define PROMPT "Write a long text about Rome."
/* Tokens of the mark that ends reasoning, in this vocabulary. */
#define N_CLOSING 8
#define SCHEMA                                                                                   \
  "{\"type\": \"object\", \"properties\": {\"year\": {\"type\": \"integer\", \"maximum\": 2000}}, "  \
  "\"required\": [\"year\"], \"additionalProperties\": false}"
#define TOOLS "[{\"type\": \"function\", \"function\": {\"name\": \"GetAlarms\"}}]"

static const char drops[] = "loop.index0 > ns.last";
static const char keeps[] = "loop.index0 >= 0";

/* @data: (nullable): what stands in the template for when it writes the reasoning of an answer. */
static void
set_up_thinking (Fixture      *fixture,
                 gconstpointer data)
{
  g_autofree char *path = NULL;
  LlmSettings *settings;

  fixture->state = llm_test_folder_new ();
  path = g_build_filename (fixture->state, "thinking.gguf", NULL);
  llm_test_template_write_shipped ("thinking", data != NULL ? drops : NULL, data, path);
  settings = new_settings (fixture->state, 2);
  settings->model_file = g_steal_pointer (&path);
  settings->context_ratio = 0;
  fixture->engine = start_engine_with (settings);
  fixture->caller = llm_caller_new (1000, "org.example.App", ":1.1", LLM_CALLER_HOST);
}

static void
check_whole (const Answer *answer)
{
  g_assert_no_error (answer->error);
  g_test_message ("[%s] %s", result_string (answer, "reasoning"), answer->text);
  g_assert_null (strstr (answer->text, "think>"));
  g_assert_null (strstr (result_string (answer, "reasoning"), "think>"));
}

static Answer *
finish (Fixture    *fixture,
        const char *prompt,
        const char *options)
{
  Answer *answer = begin_complete (fixture, prompt, options);

  WAIT_FOR (answer->is_finished);
  return answer;
}

/* --- one answer --- */

static GString *streamed;

static void
on_reasoning (const char *text,
              gsize       length)
{
  g_assert_true (g_utf8_validate (text, (gssize) length, NULL));
  g_string_append_len (streamed, text, (gssize) length);
}

static void
test_budget (Fixture      *fixture,
             gconstpointer data)
{
  for (guint n = 1; n <= 20; n += n < 5 ? 1 : 5)
    {
      g_autofree char *options = g_strdup_printf (
        "{'temperature': <0.0>, 'thinking': <%s>, 'max-tokens': <uint32 60>}",
        n % 2 == 0 ? "uint32 0" : "'0'");
      g_autoptr(Answer) none = finish (fixture, PROMPT, options);
      g_autofree char *budget = g_strdup_printf (
        n % 2 == 0 ? "{'temperature': <0.0>, 'thinking': <uint32 %u>, 'max-tokens': <uint32 60>}"
                   : "{'temperature': <0.0>, 'thinking': <'%u'>, 'max-tokens': <uint32 60>}", n);
      g_autoptr(Answer) answer = finish (fixture, PROMPT, budget);

      g_assert_no_error (none->error);
      g_assert_false (g_variant_lookup (none->results, "reasoning", "&s", NULL));
      check_whole (answer);
      g_assert_cmpstr (result_string (answer, "reasoning"), !=, "");
      g_assert_cmpstr (answer->text, !=, "");
      /* a mark whose beginning is there already is only completed */
      g_assert_cmpuint (result_uint (answer, "reasoning-tokens"), >, n);
      g_assert_cmpuint (result_uint (answer, "reasoning-tokens"), <=, n + N_CLOSING);
      g_assert_cmpuint (result_uint (answer, "reasoning-tokens"), <,
                        result_uint (answer, "output-tokens"));
    }
}

static void
test_stream (Fixture      *fixture,
             gconstpointer data)
{
  Answer *answer = answer_new ();
  g_autoptr(LlmCallOptions) parsed = parse_options (
    "{'temperature': <0.0>, 'thinking': <uint32 20>, 'max-tokens': <uint32 60>}",
    LLMSVC_CALL_COMPLETE);
  g_autoptr(GAsyncResult) result = NULL;

  streamed = g_string_new (NULL);
  llm_buffer_sink_set_reasoning (answer->sink, on_reasoning);
  llm_engine_complete_async (fixture->engine, fixture->caller, PROMPT, parsed, answer->sink,
                             on_result, &result);
  WAIT_FOR (result != NULL);
  answer->generation = g_task_propagate_pointer (G_TASK (result), &answer->error);
  WAIT_FOR (answer->is_finished);
  check_whole (answer);
  g_assert_cmpstr (streamed->str, ==, result_string (answer, "reasoning"));
  g_assert_cmpuint (streamed->len, >, 0);
  g_string_free (streamed, TRUE);
  answer_free (answer);
}

/* What the model thinks takes tokens of the answer, too. */
static void
test_length (Fixture      *fixture,
             gconstpointer data)
{
  g_autoptr(Answer) answer = finish (
    fixture, PROMPT, "{'temperature': <0.0>, 'thinking': <'on'>, 'max-tokens': <uint32 10>}");

  check_whole (answer);
  g_assert_cmpstr (answer->text, ==, "");
  g_assert_cmpstr (result_string (answer, "finish-reason"), ==, "length");
  g_assert_cmpuint (result_uint (answer, "reasoning-tokens"), ==, 10);
}

/* “off” is what the template has for it, and “auto” what it has without. */
static void
test_modes (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(Answer) without = finish (fixture, PROMPT, GREEDY);
  g_autoptr(Answer) automatic = finish (
    fixture, PROMPT, "{'temperature': <0.0>, 'max-tokens': <uint32 24>, 'thinking': <'auto'>}");
  g_autoptr(Answer) off = finish (
    fixture, PROMPT, "{'temperature': <0.0>, 'max-tokens': <uint32 24>, 'thinking': <'off'>}");
  g_autoptr(Answer) raw = finish (
    fixture, "<|im_start|>user\n" PROMPT "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "{'temperature': <0.0>, 'max-tokens': <uint32 24>, 'raw': <true>}");

  g_assert_no_error (without->error);
  g_assert_no_error (off->error);
  g_assert_no_error (raw->error);
  g_assert_cmpstr (automatic->text, ==, without->text);
  g_assert_cmpuint (result_uint (off, "prompt-tokens"), ==, result_uint (raw, "prompt-tokens"));
  g_assert_cmpstr (g_strstrip (off->text), ==, g_strstrip (raw->text));
  g_assert_cmpuint (result_uint (off, "prompt-tokens"), >, result_uint (without, "prompt-tokens"));
}

/* A stop string ends the answer, not what comes before. */
static void
test_stops (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(Answer) plain = finish (
    fixture, PROMPT, "{'temperature': <0.0>, 'thinking': <uint32 20>, 'max-tokens': <uint32 60>}");
  g_autofree char *stop = g_strndup (plain->text, 1);
  g_autofree char *in_reasoning = g_utf8_substring (result_string (plain, "reasoning"), 3, 6);
  g_autofree char *options = g_strdup_printf (
    "{'temperature': <0.0>, 'thinking': <uint32 20>, 'max-tokens': <uint32 60>, "
    "'stop': <['%s', '%s']>}", stop, in_reasoning);
  g_autoptr(Answer) stopped = finish (fixture, PROMPT, options);

  check_whole (stopped);
  g_assert_cmpstr (result_string (stopped, "reasoning"), ==, result_string (plain, "reasoning"));
  g_assert_cmpstr (stopped->text, ==, "");
  g_assert_cmpstr (result_string (stopped, "finish-reason"), ==, "stop");
  g_assert_cmpuint (result_uint (stopped, "output-tokens"), <=,
                    result_uint (stopped, "reasoning-tokens") + 2);
}

/* --- what the answer is held to --- */

static void
check_year (const Answer *answer)
{
  g_autoptr(JsonNode) root = NULL;

  check_whole (answer);
  g_assert_cmpstr (result_string (answer, "reasoning"), !=, "");
  g_assert_cmpstr (result_string (answer, "finish-reason"), ==, "stop");
  root = json_from_string (answer->text, NULL);
  g_assert_true (root != NULL && JSON_NODE_HOLDS_OBJECT (root));
  g_assert_cmpint (json_object_get_int_member (json_node_get_object (root), "year"), <=, 2000);
}

/* Where an answer may call tools, or not, it needs no room of its own. */
static void
test_few_tokens (Fixture      *fixture,
                 gconstpointer data)
{
  static const char tools[] = "[{\"function\": {\"name\": \"f\"}}]";

  for (guint n = 1; n < 10; n++)
    for (guint is_none = 0; is_none < 2; is_none++)
      {
        g_autofree char *options = g_strdup_printf (
          "{'temperature': <0.0>, 'thinking': <'on'>, 'tools': <'%s'>, 'tool-choice': <'%s'>, "
          "'max-tokens': <uint32 %u>}", tools, is_none ? "none" : "auto", n);
        g_autoptr(Answer) answer = finish (fixture, PROMPT, options);

        check_whole (answer);
        g_assert_cmpstr (result_string (answer, "finish-reason"), ==, "length");
        g_assert_cmpuint (result_uint (answer, "output-tokens"), ==, n);
      }
}

/* Also where the model would end its answer while it thinks, and where tokens are few. */
static void
test_schema (Fixture      *fixture,
             gconstpointer data)
{
  for (guint i = 0; i < 12; i++)
    {
      g_autofree char *options = g_strdup_printf (
        "{'temperature': <%.1f>, 'seed': <uint64 %u>, 'thinking': <%s>, 'schema': <'%s'>, "
        "'max-tokens': <uint32 %u>}", i % 3 == 0 ? 0 : 1.5, i, i % 2 == 0 ? "'on'" : "uint32 7",
        SCHEMA, i < 6 ? 60 : 34);
      g_autoptr(Answer) answer = finish (fixture, PROMPT, options);

      check_year (answer);
    }
}

static void
test_tools (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(Answer) answer = finish (
    fixture, "Please show me my alarms.", "{'temperature': <0.0>, 'thinking': <uint32 12>, "
    "'max-tokens': <uint32 200>, 'tools': <'" TOOLS "'>, 'tool-choice': <'required'>}");

  check_whole (answer);
  g_assert_cmpstr (g_strstrip (answer->text), ==, "");
  g_assert_cmpstr (result_string (answer, "reasoning"), !=, "");
  g_assert_nonnull (strstr (result_string (answer, "tool-calls"), "\"name\":\"GetAlarms\""));
}

/* --- with others --- */

/* Several at once have the texts that each has alone. */
static void
test_several (Fixture      *fixture,
              gconstpointer data)
{
  static const char *const options[] = {
    "{'temperature': <1.2>, 'seed': <uint64 1>, 'thinking': <'on'>, 'max-tokens': <uint32 50>}",
    "{'temperature': <1.2>, 'seed': <uint64 2>, 'thinking': <uint32 6>, 'max-tokens': <uint32 50>}",
    "{'temperature': <1.2>, 'seed': <uint64 3>, 'thinking': <uint32 9>, 'max-tokens': <uint32 60>, "
    "'schema': <'" SCHEMA "'>}",
    "{'temperature': <1.2>, 'seed': <uint64 4>, 'max-tokens': <uint32 50>}",
  };
  Answer *alone[G_N_ELEMENTS (options)], *together[G_N_ELEMENTS (options)];

  for (guint i = 0; i < G_N_ELEMENTS (options); i++)
    alone[i] = finish (fixture, PROMPT, options[i]);
  for (guint i = 0; i < G_N_ELEMENTS (options); i++)
    together[i] = begin_complete (fixture, PROMPT, options[i]);
  for (guint i = 0; i < G_N_ELEMENTS (options); i++)
    {
      const char *a = "", *b = "";

      WAIT_FOR (together[i]->is_finished);
      g_assert_no_error (together[i]->error);
      g_assert_cmpstr (together[i]->text, ==, alone[i]->text);
      g_variant_lookup (alone[i]->results, "reasoning", "&s", &a);
      g_variant_lookup (together[i]->results, "reasoning", "&s", &b);
      g_assert_cmpstr (a, ==, b);
      answer_free (alone[i]);
      answer_free (together[i]);
    }
}

/* Guesses change nothing. */
static void
test_drafts (Fixture      *fixture,
             gconstpointer data)
{
  guint n_drafted = 0;

  /* whether guesses pay is measured: again, until some did */
  for (guint attempt = 0; attempt < 6 || (n_drafted == 0 && attempt < 6 * MAX_ATTEMPTS); attempt++)
    {
      guint i = attempt % 6;
      g_autofree char *thinking = i % 2 == 0 ? g_strdup ("'on'") : g_strdup_printf ("uint32 %u", 5 * i);
      g_autofree char *plain_options = g_strdup_printf (
        "{'temperature': <0.0>, 'max-tokens': <uint32 80>, 'thinking': <%s>%s}", thinking,
        i >= 4 ? ", 'schema': <'" SCHEMA "'>" : "");
      g_autofree char *options = g_strdup_printf (
        "{'temperature': <0.0>, 'max-tokens': <uint32 80>, 'thinking': <%s>, 'draft': <'lookup'>%s}",
        thinking, i >= 4 ? ", 'schema': <'" SCHEMA "'>" : "");
      const char *prompt = i % 2 == 0 ? "List ten animals." : PROMPT;
      g_autoptr(Answer) plain = finish (fixture, prompt, plain_options);
      g_autoptr(Answer) drafted = NULL;

      make_rows_free (fixture);
      drafted = finish (fixture, prompt, options);
      check_whole (plain);
      check_whole (drafted);
      g_assert_cmpstr (drafted->text, ==, plain->text);
      g_assert_cmpstr (result_string (drafted, "reasoning"), ==,
                       result_string (plain, "reasoning"));
      g_assert_cmpuint (result_uint (drafted, "output-tokens"), ==,
                        result_uint (plain, "output-tokens"));
      n_drafted += result_uint (drafted, "accepted-tokens");
    }
  g_assert_cmpuint (n_drafted, >, 0);
}

/* --- conversations --- */

#define THINK "{'temperature': <0.0>, 'thinking': <uint32 20>, 'max-tokens': <uint32 60>}"

static Answer *
finish_ask (Fixture    *fixture,
            LlmContext *context,
            const char *prompt,
            const char *options)
{
  Answer *answer = begin_ask (fixture, context, prompt, options);

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  return answer;
}

/* A template that leaves earlier reasoning out has it out of the next prompt; one that keeps it has
 * it as it was generated. The messages have it in any case. */
static void
test_later (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autoptr(Answer) first = finish_ask (fixture, context, PROMPT, THINK);
  g_autoptr(Answer) second = finish_ask (fixture, context, "And of Athens?", THINK);
  g_autoptr(GVariant) messages = get_messages (context);
  g_autoptr(GVariant) printed = NULL;
  g_autofree char *earlier = NULL;
  g_autofree char *options = NULL;
  g_autoptr(Answer) whole = NULL;
  g_autoptr(GVariant) extras = NULL;
  const char *role, *text, *reasoning;

  g_test_message ("[%s] %s", result_string (second, "reasoning"), second->text);
  g_assert_null (strstr (second->text, "think>"));
  g_variant_get_child (messages, 1, "(&s&s@a{sv})", &role, &text, &extras);
  g_assert_cmpstr (role, ==, "assistant");
  g_assert_cmpstr (text, ==, first->text);
  g_assert_true (g_variant_lookup (extras, "reasoning", "&s", &reasoning));
  g_assert_cmpstr (reasoning, ==, result_string (first, "reasoning"));

  if (data != NULL)
    {
      /* computed once */
      g_assert_cmpuint (result_uint (second, "cached-tokens"), >=,
                        result_uint (first, "prompt-tokens") + result_uint (first, "output-tokens")
                          - 2);
      g_assert_cmpuint (result_uint (second, "prompt-tokens"), >,
                        result_uint (first, "prompt-tokens") + result_uint (first, "output-tokens"));
      return;
    }
  /* the same conversation without any reasoning, at once */
  printed = g_variant_ref_sink (g_variant_new_string (first->text));
  earlier = g_variant_print (printed, FALSE);
  options = g_strdup_printf ("{'temperature': <0.0>, 'thinking': <uint32 20>, 'max-tokens': "
                             "<uint32 60>, 'messages': <@a(ssa{sv}) [('user', '%s', {}), "
                             "('assistant', %s, {})]>}",
                             PROMPT, earlier);
  whole = finish (fixture, "And of Athens?", options);
  g_assert_no_error (whole->error);
  g_assert_cmpuint (result_uint (second, "prompt-tokens"), ==,
                    result_uint (whole, "prompt-tokens"));
  g_assert_cmpstr (second->text, ==, whole->text);
  g_assert_cmpstr (result_string (second, "reasoning"), ==, result_string (whole, "reasoning"));
  g_assert_cmpuint (result_uint (second, "cached-tokens"), <,
                    result_uint (first, "prompt-tokens") + 2);
}

/* Behind a call of a tool the reasoning that led to it is still there. */
static void
test_tool_result (Fixture      *fixture,
                  gconstpointer data)
{
  g_autoptr(LlmCallOptions) none = parse_options ("{}", LLMSVC_CALL_COUNT_TOKENS);
  guint counts[2];

  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *messages = g_strdup_printf (
        "@a(ssa{sv}) [('user', 'Show me my alarms', {}), ('assistant', 'Here', {%s}), "
        "('tool', '[]', {})]",
        i == 0 ? "'reasoning': <'They want a list of them all'>" : "");
      g_autoptr(GAsyncResult) result = NULL;
      g_autoptr(GError) error = NULL;

      llm_engine_count_tokens_async (fixture->engine, fixture->caller,
                                     g_variant_new_parsed (messages), none, on_result, &result);
      WAIT_FOR (result != NULL);
      take_count (result, &counts[i], &error);
      g_assert_no_error (error);
    }
  g_assert_cmpuint (counts[0], >, counts[1] + 10);
}

/* After a restart the next prompt is the same. */
static void
test_restart (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Answer) before = NULL;
  g_autoptr(Answer) after = NULL;
  const char *names[] = { "one", "two" };

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr(LlmContext) context =
        open_context (fixture, names[i], "{'create': <true>}", &error);
      g_autoptr(Answer) first = NULL;

      g_assert_no_error (error);
      first = finish_ask (fixture, context, PROMPT, THINK);
      check_whole (first);
      if (i == 0)
        before = finish_ask (fixture, context, "And of Athens?", THINK);
    }
  stop_engine (&fixture->engine);
  {
    LlmSettings *settings = new_settings (fixture->state, 2);

    settings->model_file = g_build_filename (fixture->state, "thinking.gguf", NULL);
    settings->context_ratio = 0;
    fixture->engine = start_engine_with (settings);
  }
  {
    g_autoptr(LlmContext) context = open_context (fixture, "two", "{}", &error);

    g_assert_no_error (error);
    after = finish_ask (fixture, context, "And of Athens?", THINK);
  }
  g_assert_cmpstr (after->text, ==, before->text);
  g_assert_cmpstr (result_string (after, "reasoning"), ==, result_string (before, "reasoning"));
  g_assert_cmpuint (result_uint (after, "prompt-tokens"), ==,
                    result_uint (before, "prompt-tokens"));
}

/* --- what is refused --- */

static void
test_refused (Fixture      *fixture,
              gconstpointer data)
{
  static const struct
  {
    const char *options;
    int code;
    const char *message;
  } cases[] = {
    { "{'thinking': <'on'>, 'raw': <true>}", LLMSVC_ERROR_UNSUPPORTED, "thinking: a raw prompt" },
    { "{'thinking': <'on'>, 'schema': <'" SCHEMA "'>, 'max-tokens': <uint32 8>}",
      LLMSVC_ERROR_INVALID_OPTION, "max-tokens: 8 are too few" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(Answer) answer = finish (fixture, PROMPT, cases[i].options);

      g_assert_error (answer->error, LLMSVC_ERROR, cases[i].code);
      g_test_message ("%s", answer->error->message);
      g_assert_true (g_str_has_prefix (answer->error->message, cases[i].message));
    }
}

/* The shipped model's own template knows no thinking. */
static void
test_unknown (Fixture      *fixture,
              gconstpointer data)
{
  static const char *const asked[] = { "'on'", "uint32 5", "'12'" };
  g_autofree char *plain = complete (fixture, PROMPT, GREEDY);
  g_autofree char *off = complete (
    fixture, PROMPT, "{'temperature': <0.0>, 'max-tokens': <uint32 24>, 'thinking': <'off'>}");
  g_autofree char *automatic = complete (
    fixture, PROMPT, "{'temperature': <0.0>, 'max-tokens': <uint32 24>, 'thinking': <'auto'>}");

  g_assert_cmpstr (off, ==, plain);
  g_assert_cmpstr (automatic, ==, plain);
  for (guint i = 0; i < G_N_ELEMENTS (asked); i++)
    {
      g_autofree char *options = g_strdup_printf ("{'thinking': <%s>}", asked[i]);
      g_autoptr(Answer) answer = finish (fixture, PROMPT, options);

      g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
      g_assert_true (g_str_has_prefix (answer->error->message, "thinking: the chat template"));
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, test)                                                                     \
  g_test_add ("/engine/thinking/" name, Fixture, NULL, set_up_thinking, test, tear_down)
  ADD ("budget", test_budget);
  ADD ("stream", test_stream);
  ADD ("length", test_length);
  ADD ("modes", test_modes);
  ADD ("stops", test_stops);
  ADD ("schema", test_schema);
  ADD ("few-tokens", test_few_tokens);
  ADD ("tools", test_tools);
  ADD ("several", test_several);
  ADD ("drafts", test_drafts);
  ADD ("later", test_later);
  g_test_add ("/engine/thinking/later-kept", Fixture, keeps, set_up_thinking, test_later, tear_down);
  ADD ("tool-result", test_tool_result);
  ADD ("restart", test_restart);
  ADD ("refused", test_refused);
  g_test_add ("/engine/thinking/unknown", Fixture, NULL, set_up, test_unknown, tear_down);
  return g_test_run ();
}
