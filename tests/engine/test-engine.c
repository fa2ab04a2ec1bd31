/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The façade in one process, with the shipped model. */

#include "engine/llm-engine.h"

#include <string.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "engine/llm-buffer-sink.h"
#include "support/llm-test-gguf.h"

/* --- a rig that waits --- */

typedef struct
{
  char *state;          /* folder */
  LlmEngine *engine;
  LlmCaller *caller;
} Fixture;

static LlmEngine *
start_engine (const char *state,
              guint       n_threads)
{
  LlmSettings *settings = llm_settings_new ();
  LlmEngine *engine;

  g_strfreev (settings->model_folders);
  settings->model_folders = g_strdupv ((char *[]) { (char *) g_getenv ("LLM_MODEL_DIR"), NULL });
  settings->state_folder = g_strdup (state);
  settings->n_threads = n_threads;
  engine = llm_engine_new (settings);
  llm_engine_start (engine);
  return engine;
}

static void
stop_engine (LlmEngine **engine)
{
  llm_engine_stop (*engine);
  g_clear_object (engine);
}

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  fixture->state = g_dir_make_tmp ("llm-test-XXXXXX", NULL);
  fixture->engine = start_engine (fixture->state, 2);
  fixture->caller = llm_caller_new (1000, "org.example.App", ":1.1", FALSE, TRUE);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  if (fixture->engine != NULL)
    stop_engine (&fixture->engine);
  llm_caller_unref (fixture->caller);
  g_free (fixture->state);
}

static void
on_result (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  *(GAsyncResult **) data = g_object_ref (result);
}

#define WAIT_FOR(condition)                       \
  while (!(condition))                            \
    g_main_context_iteration (NULL, TRUE)

/* Options in GVariant's text format. */
static LlmsvcOptions *
parse_options (const char *text,
               LlmsvcCall  call)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) dict = g_variant_parse (G_VARIANT_TYPE_VARDICT, text, NULL, NULL, &error);
  LlmsvcOptions *options;

  g_assert_no_error (error);
  options = llmsvc_options_parse (dict, call, NULL, &error);
  g_assert_no_error (error);
  return options;
}

static GVariant *
user_message (const char *text)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(ssa{sv})"));
  g_variant_builder_add (&builder, "(ssa{sv})", "user", text, NULL);
  return g_variant_builder_end (&builder);
}

/* An answer under way. */
typedef struct
{
  LlmSink *sink;
  LlmGeneration *generation;  /* (nullable) */
  char *text;
  GVariant *results;
  GError *error;
  gboolean is_finished;
} Answer;

static void
on_finished (const char   *text,
             GVariant     *results,
             const GError *error,
             gpointer      data)
{
  Answer *answer = data;

  answer->text = g_strdup (text);
  answer->results = results != NULL ? g_variant_ref (results) : NULL;
  answer->error = error != NULL ? g_error_copy (error) : NULL;
  answer->is_finished = TRUE;
}

static Answer *
answer_new (void)
{
  Answer *answer = g_new0 (Answer, 1);

  answer->sink = llm_buffer_sink_new (on_finished, answer, NULL);
  return answer;
}

static void
answer_free (Answer *answer)
{
  WAIT_FOR (answer->is_finished);
  g_object_unref (answer->sink);
  g_clear_object (&answer->generation);
  g_clear_pointer (&answer->results, g_variant_unref);
  g_clear_error (&answer->error);
  g_free (answer->text);
  g_free (answer);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Answer, answer_free)

static void
on_completing (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  Answer *answer = data;

  answer->generation = llm_engine_complete_finish (LLM_ENGINE (source), result, &answer->error);
  if (answer->generation == NULL)
    answer->is_finished = TRUE;
}

static void
on_generating (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  Answer *answer = data;

  answer->generation = llm_context_generate_finish (LLM_CONTEXT (source), result, &answer->error);
  if (answer->generation == NULL)
    answer->is_finished = TRUE;
}

static Answer *
begin_complete (Fixture    *fixture,
                const char *prompt,
                const char *options)
{
  Answer *answer = answer_new ();
  g_autoptr(LlmsvcOptions) parsed = parse_options (options, LLMSVC_CALL_COMPLETE);

  llm_engine_complete_async (fixture->engine, fixture->caller, prompt, parsed, answer->sink,
                             on_completing, answer);
  return answer;
}

static Answer *
begin_ask (Fixture    *fixture,
           LlmContext *context,
           const char *prompt,
           const char *options)
{
  Answer *answer = answer_new ();
  g_autoptr(LlmsvcOptions) parsed = parse_options (options, LLMSVC_CALL_ASK);

  llm_context_generate_async (context, fixture->caller, user_message (prompt), parsed, answer->sink,
                              on_generating, answer);
  return answer;
}

static char *
complete (Fixture    *fixture,
          const char *prompt,
          const char *options)
{
  g_autoptr(Answer) answer = begin_complete (fixture, prompt, options);

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  return g_strdup (answer->text);
}

static char *
ask (Fixture    *fixture,
     LlmContext *context,
     const char *prompt,
     const char *options)
{
  g_autoptr(Answer) answer = begin_ask (fixture, context, prompt, options);

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  return g_strdup (answer->text);
}

static LlmContext *
create (Fixture    *fixture,
        const char *options)
{
  g_autoptr(LlmsvcOptions) parsed = parse_options (options, LLMSVC_CALL_CREATE_CONTEXT);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  LlmContext *context;

  llm_engine_create_context_async (fixture->engine, fixture->caller, parsed, on_result, &result);
  WAIT_FOR (result != NULL);
  context = llm_engine_create_context_finish (fixture->engine, result, &error);
  g_assert_no_error (error);
  return context;
}

static LlmContext *
open_context (Fixture    *fixture,
              const char *name,
              const char *options,
              GError    **error)
{
  g_autoptr(LlmsvcOptions) parsed = parse_options (options, LLMSVC_CALL_OPEN_CONTEXT);
  g_autoptr(GAsyncResult) result = NULL;

  llm_engine_open_context_async (fixture->engine, fixture->caller, name, parsed, on_result, &result);
  WAIT_FOR (result != NULL);
  return llm_engine_open_context_finish (fixture->engine, result, error);
}

static GVariant *
get_messages (LlmContext *context)
{
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  GVariant *messages;

  llm_context_get_messages_async (context, 0, 0, on_result, &result);
  WAIT_FOR (result != NULL);
  messages = llm_context_get_messages_finish (context, result, &error);
  g_assert_no_error (error);
  return messages;
}

static gsize
count_messages (LlmContext *context)
{
  g_autoptr(GVariant) messages = get_messages (context);

  return g_variant_n_children (messages);
}

static gboolean
rollback (LlmContext *context,
          guint       turns,
          GError    **error)
{
  g_autoptr(LlmsvcOptions) options = parse_options ("{}", LLMSVC_CALL_ROLLBACK);
  g_autoptr(GAsyncResult) result = NULL;

  llm_context_rollback_async (context, turns, options, on_result, &result);
  WAIT_FOR (result != NULL);
  return llm_context_rollback_finish (context, result, error);
}

static guint64
trim (Fixture    *fixture,
      const char *level)
{
  g_autoptr(LlmsvcOptions) options = parse_options ("{}", LLMSVC_CALL_TRIM);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) trimmed = NULL;
  guint64 freed = 0;

  llm_engine_trim_async (fixture->engine, fixture->caller, level, options, on_result, &result);
  WAIT_FOR (result != NULL);
  trimmed = llm_engine_trim_finish (fixture->engine, result, &error);
  g_assert_no_error (error);
  g_assert_true (g_variant_lookup (trimmed, "freed", "t", &freed));
  return freed;
}

static gboolean
set_budget (Fixture    *fixture,
            guint64     bytes,
            GError    **error)
{
  g_autofree char *text = g_strdup_printf ("{'bytes': <uint64 %" G_GUINT64_FORMAT ">}", bytes);
  g_autoptr(LlmsvcOptions) options = parse_options (text, LLMSVC_CALL_SET_BUDGET);
  g_autoptr(GAsyncResult) result = NULL;

  llm_engine_set_budget_async (fixture->engine, fixture->caller, options, on_result, &result);
  WAIT_FOR (result != NULL);
  return llm_engine_set_budget_finish (fixture->engine, result, error);
}

static guint
result_uint (const Answer *answer,
             const char   *key)
{
  guint value = 0;

  g_assert_true (g_variant_lookup (answer->results, key, "u", &value));
  return value;
}

static const char *
result_string (const Answer *answer,
               const char   *key)
{
  const char *value = NULL;

  g_assert_true (g_variant_lookup (answer->results, key, "&s", &value));
  return value;
}

#define GREEDY "{'temperature': <0.0>, 'max-tokens': <uint32 24>}"

/* --- answers --- */

static void
test_same_text (Fixture      *fixture,
                gconstpointer data)
{
  const char sampled[] = "{'seed': <uint64 7>, 'temperature': <1.0>, 'max-tokens': <uint32 24>}";
  const char other[] = "{'seed': <uint64 8>, 'temperature': <1.5>, 'max-tokens': <uint32 24>}";
  g_autofree char *first = complete (fixture, "Find me a comedy movie.", sampled);
  g_autofree char *again = complete (fixture, "Find me a comedy movie.", sampled);
  g_autofree char *different = complete (fixture, "Find me a comedy movie.", other);
  g_autofree char *threads = NULL;

  g_assert_cmpstr (first, ==, again);
  g_assert_cmpstr (first, !=, different);
  g_assert_true (g_utf8_validate (different, -1, NULL));

  /* One thread or three: the same. */
  stop_engine (&fixture->engine);
  fixture->engine = start_engine (fixture->state, 3);
  threads = complete (fixture, "Find me a comedy movie.", sampled);
  g_assert_cmpstr (first, ==, threads);
}

/* A text does not depend on what else runs. */
static void
test_beside_others (Fixture      *fixture,
                    gconstpointer data)
{
  const char *const prompts[] = {
    "Find me a comedy movie.", "I want a restaurant in San Jose.", "What is the weather?",
    "Book a train to Fresno for tomorrow, two people, please.", "Hello!",
  };
  char *alone[G_N_ELEMENTS (prompts)];
  Answer *answers[G_N_ELEMENTS (prompts) * 2];

  for (guint i = 0; i < G_N_ELEMENTS (prompts); i++)
    alone[i] = complete (fixture, prompts[i], GREEDY);
  for (guint i = 0; i < G_N_ELEMENTS (answers); i++)
    answers[i] = begin_complete (fixture, prompts[i % G_N_ELEMENTS (prompts)], GREEDY);
  for (guint i = 0; i < G_N_ELEMENTS (answers); i++)
    {
      WAIT_FOR (answers[i]->is_finished);
      g_assert_no_error (answers[i]->error);
      g_assert_cmpstr (answers[i]->text, ==, alone[i % G_N_ELEMENTS (prompts)]);
      answer_free (answers[i]);
    }
  for (guint i = 0; i < G_N_ELEMENTS (prompts); i++)
    g_free (alone[i]);
}

static void
test_results (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(Answer) answer = begin_complete (fixture, "Find me a comedy movie.",
                                             "{'temperature': <0.0>, 'max-tokens': <uint32 3>, 'colour': <1>}");
  g_auto(GStrv) ignored = NULL;
  double ttft = 0;

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpstr (result_string (answer, "finish-reason"), ==, "length");
  g_assert_cmpuint (result_uint (answer, "output-tokens"), ==, 3);
  g_assert_cmpuint (result_uint (answer, "prompt-tokens"), >, 8);
  g_assert_cmpuint (result_uint (answer, "reused-tokens"), ==, 0);
  g_assert_true (g_variant_lookup (answer->results, "ttft-ms", "d", &ttft));
  g_assert_cmpfloat (ttft, >, 0);
  g_assert_true (g_variant_lookup (answer->results, "ignored", "^as", &ignored));
  g_assert_cmpstr (ignored[0], ==, "colour");
}

static void
test_stop_string (Fixture      *fixture,
                  gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autofree char *whole = complete (fixture, "Find me a comedy movie.", GREEDY);
  g_autoptr(Answer) answer = NULL;
  g_autofree char *options = NULL;
  g_autofree char *stop = g_strndup (whole + strlen (whole) / 2, 4);
  g_autofree char *next = NULL;

  options = g_strdup_printf ("{'temperature': <0.0>, 'stop': <['%s']>}", stop);
  answer = begin_ask (fixture, context, "Find me a comedy movie.", options);
  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpstr (result_string (answer, "finish-reason"), ==, "stop");
  g_assert_null (strstr (answer->text, stop));
  g_assert_cmpuint (strlen (answer->text), ==, strstr (whole, stop) - whole);
  /* The conversation goes on behind what was shown. */
  next = ask (fixture, context, "And now?", GREEDY);
  g_assert_cmpuint (count_messages (context), ==, 4);
}

/* --- contexts --- */

static void
test_turns (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{'name': <'notes'>, 'system': <'Be kind.'>}");
  g_autoptr(LlmsvcOptions) fork_options = parse_options ("{}", LLMSVC_CALL_FORK);
  g_autofree char *first = ask (fixture, context, "I want a restaurant in San Jose.", GREEDY);
  g_autoptr(Answer) second = begin_ask (fixture, context, "Italian food, please.", GREEDY);
  g_autoptr(LlmContext) fork = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *again = NULL;
  g_autofree char *in_fork = NULL;
  guint tokens;

  WAIT_FOR (second->is_finished);
  g_assert_no_error (second->error);
  g_assert_cmpuint (result_uint (second, "reused-tokens"), >, 10);
  g_assert_cmpuint (llm_context_get_revision (context), ==, 2);
  g_assert_cmpuint (count_messages (context), ==, 5);
  g_assert_cmpstr (llm_context_get_residency (context), ==, "memory");
  tokens = llm_context_get_tokens (context);
  g_assert_cmpuint (tokens, ==, result_uint (second, "prompt-tokens") + result_uint (second, "output-tokens"));

  /* Back, and again: the same answer. */
  g_assert_true (rollback (context, 1, &error));
  g_assert_cmpuint (count_messages (context), ==, 3);
  g_assert_cmpuint (llm_context_get_revision (context), ==, 3);
  again = ask (fixture, context, "Italian food, please.", GREEDY);
  g_assert_cmpstr (again, ==, second->text);
  g_assert_cmpuint (llm_context_get_tokens (context), ==, tokens);

  /* A fork goes on alike and does not disturb its source. */
  g_assert_true (rollback (context, 1, &error));
  llm_context_fork_async (context, fixture->caller, fork_options, on_result, &result);
  WAIT_FOR (result != NULL);
  fork = llm_context_fork_finish (context, result, &error);
  g_assert_no_error (error);
  in_fork = ask (fixture, fork, "Italian food, please.", GREEDY);
  g_assert_cmpstr (in_fork, ==, second->text);
  g_assert_cmpuint (count_messages (fork), ==, 5);
  g_assert_cmpuint (count_messages (context), ==, 3);

  /* The system text stays. */
  g_assert_false (rollback (context, 2, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_assert_true (rollback (context, 1, &error));
  g_assert_cmpuint (count_messages (context), ==, 1);
}

/* Memory of what was rolled back is not taken for that of what comes instead. */
static void
test_other_turn (Fixture      *fixture,
                 gconstpointer data)
{
  const char first[] = "I want a restaurant in San Jose.";
  const char instead[] = "No, find me a comedy movie with Jim Carrey, please, and a train to Fresno.";
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autoptr(LlmContext) straight = create (fixture, "{}");
  g_autoptr(Answer) answer = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *expected = NULL;
  guint n_first;

  g_free (ask (fixture, straight, first, GREEDY));
  expected = ask (fixture, straight, instead, GREEDY);

  g_free (ask (fixture, context, first, GREEDY));
  n_first = llm_context_get_tokens (context);
  g_free (ask (fixture, context, "Italian food, and cheap, for four people tomorrow at seven, please.", GREEDY));
  g_assert_true (rollback (context, 1, &error));
  answer = begin_ask (fixture, context, instead, GREEDY);
  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpstr (answer->text, ==, expected);
  g_assert_cmpuint (result_uint (answer, "reused-tokens"), >=, n_first);
  g_assert_cmpuint (result_uint (answer, "reused-tokens"), <, n_first + 8);
}

static void
test_append (Fixture      *fixture,
             gconstpointer data)
{
  const char *const waits[] = { "{'wait': <true>}", "{}" };
  char *texts[2];

  for (guint i = 0; i < G_N_ELEMENTS (waits); i++)
    {
      g_autoptr(LlmContext) context = create (fixture, "{}");
      g_autoptr(LlmsvcOptions) options = parse_options (waits[i], LLMSVC_CALL_APPEND);
      g_autoptr(GAsyncResult) result = NULL;
      g_autoptr(GError) error = NULL;
      g_autoptr(Answer) answer = NULL;
      guint tokens = 0;

      llm_context_append_async (context, fixture->caller, user_message ("I live in San Jose."), options,
                                on_result, &result);
      WAIT_FOR (result != NULL);
      g_assert_true (llm_context_append_finish (context, result, &tokens, &error));
      g_assert_no_error (error);
      g_assert_cmpuint (tokens, >, 5);
      g_assert_cmpuint (llm_context_get_tokens (context), ==, tokens);
      g_assert_cmpuint (llm_context_get_revision (context), ==, 1);
      /* Without `wait` the next call may come before the text was read in. */
      answer = begin_ask (fixture, context, "Find a restaurant.", GREEDY);
      WAIT_FOR (answer->is_finished);
      g_assert_no_error (answer->error);
      if (i == 0)
        g_assert_cmpuint (result_uint (answer, "reused-tokens"), >, 5);
      texts[i] = g_strdup (answer->text);
    }
  g_assert_cmpstr (texts[0], ==, texts[1]);
  g_free (texts[0]);
  g_free (texts[1]);
}

/* Cancelled: the context is as before, unless the caller wants the part kept. */
static void
test_cancel (Fixture      *fixture,
             gconstpointer data)
{
  const char long_answer[] = "{'temperature': <2.0>, 'top-k': <uint32 0>, 'min-p': <0.0>, 'top-p': <1.0>, "
                             "'seed': <uint64 3>, 'logit-bias': <{uint32 4: -100.0, uint32 2: -100.0}>}";
  const char keeping[] = "{'temperature': <2.0>, 'top-k': <uint32 0>, 'min-p': <0.0>, 'top-p': <1.0>, "
                         "'seed': <uint64 3>, 'logit-bias': <{uint32 4: -100.0, uint32 2: -100.0}>, "
                         "'on-cancel': <'keep'>}";
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autofree char *before = ask (fixture, context, "Hello!", GREEDY);
  g_autofree char *after = NULL;

  for (guint keeps = 0; keeps < 2; keeps++)
    {
      g_autoptr(Answer) answer = begin_ask (fixture, context, "Tell me a story.", keeps ? keeping : long_answer);
      g_autoptr(GAsyncResult) result = NULL;
      g_autoptr(Answer) busy = NULL;

      WAIT_FOR (answer->generation != NULL || answer->is_finished);
      g_assert_no_error (answer->error);
      WAIT_FOR (llm_generation_get_state (answer->generation) == LLM_GENERATION_WRITING);
      busy = begin_ask (fixture, context, "And I?", GREEDY);
      WAIT_FOR (busy->is_finished);
      g_assert_error (busy->error, LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_BUSY);

      llm_generation_cancel_async (answer->generation, on_result, &result);
      WAIT_FOR (result != NULL);
      g_assert_true (answer->is_finished);
      g_assert_cmpint (llm_generation_get_state (answer->generation), ==, LLM_GENERATION_DONE);
      if (keeps && answer->error == NULL)
        {
          g_assert_cmpstr (result_string (answer, "finish-reason"), ==, "cancelled");
          g_assert_cmpuint (llm_context_get_revision (context), ==, 2);
          g_assert_cmpuint (count_messages (context), ==, 4);
        }
      else
        {
          g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED);
          g_assert_cmpuint (llm_context_get_revision (context), ==, 1);
          g_assert_cmpuint (count_messages (context), ==, 2);
        }
    }
  after = ask (fixture, context, "Hello!", GREEDY);
}

static void
test_deadline (Fixture      *fixture,
               gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autoptr(Answer) answer = begin_ask (fixture, context, "Tell me a story.",
                                        "{'deadline-ms': <uint32 1>, 'logit-bias': <{uint32 4: -100.0}>}");

  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_DEADLINE_EXCEEDED);
  g_assert_cmpuint (llm_context_get_revision (context), ==, 0);
}

static void
test_request_id (Fixture      *fixture,
                 gconstpointer data)
{
  const char once[] = "{'request-id': <'r1'>, 'max-tokens': <uint32 9>, 'if-revision': <uint64 0>}";
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autofree char *first = ask (fixture, context, "Tell me a story.", once);
  g_autofree char *second = ask (fixture, context, "Tell me a story.", once);
  g_autoptr(Answer) conflict = begin_ask (fixture, context, "Hello!", "{'if-revision': <uint64 0>}");

  g_assert_cmpstr (first, ==, second);
  g_assert_cmpuint (llm_context_get_revision (context), ==, 1);
  g_assert_cmpuint (count_messages (context), ==, 2);
  WAIT_FOR (conflict->is_finished);
  g_assert_error (conflict->error, LLMSVC_ERROR, LLMSVC_ERROR_CONFLICT);
}

/* A named context survives the service, and goes on as if nothing had happened. */
static void
test_restart (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *id = NULL;
  g_autofree char *next = NULL;
  g_autofree char *undisturbed = NULL;
  LlmContext *context = create (fixture, "{'name': <'notes'>}");
  LlmContext *unnamed = create (fixture, "{}");
  guint tokens;

  g_free (ask (fixture, context, "I want a restaurant in San Jose.", GREEDY));
  undisturbed = ask (fixture, context, "Italian food, please.", GREEDY);
  g_assert_true (rollback (context, 1, &error));
  id = g_strdup (llm_context_get_id (context));
  tokens = llm_context_get_tokens (context);
  g_object_unref (context);
  g_object_unref (unnamed);

  stop_engine (&fixture->engine);
  fixture->engine = start_engine (fixture->state, 2);
  context = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  g_assert_cmpstr (llm_context_get_id (context), ==, id);
  g_assert_cmpuint (llm_context_get_tokens (context), ==, tokens);
  g_assert_cmpuint (llm_context_get_revision (context), ==, 3);
  g_assert_cmpstr (llm_context_get_residency (context), ==, "text");
  g_assert_cmpuint (count_messages (context), ==, 2);
  next = ask (fixture, context, "Italian food, please.", GREEDY);
  g_assert_cmpstr (next, ==, undisturbed);
  g_object_unref (context);
}

static void
test_close (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{'name': <'notes'>}");
  g_autoptr(Answer) answer = begin_ask (fixture, context, "Tell me a story.", "{'logit-bias': <{uint32 4: -100.0}>}");
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;

  /* Closing cancels what runs. */
  WAIT_FOR (answer->generation != NULL);
  llm_context_close_async (context, on_result, &result);
  WAIT_FOR (result != NULL);
  g_assert_true (llm_context_close_finish (context, result, &error));
  g_assert_true (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED);

  g_assert_null (llm_engine_lookup_context (fixture->engine, fixture->caller, llm_context_get_id (context)));
  g_assert_null (open_context (fixture, "notes", "{}", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND);
  stop_engine (&fixture->engine);
  fixture->engine = start_engine (fixture->state, 2);
  g_clear_error (&error);
  g_assert_null (open_context (fixture, "notes", "{}", &error));
}

static void
test_isolation (Fixture      *fixture,
                gconstpointer data)
{
  g_autoptr(LlmCaller) app = llm_caller_new (1000, "org.example.Other", ":1.2", FALSE, TRUE);
  g_autoptr(LlmCaller) user = llm_caller_new (1001, "org.example.App", ":1.3", FALSE, TRUE);
  g_autoptr(LlmCaller) same = llm_caller_new (1000, "org.example.App", ":1.4", FALSE, TRUE);
  g_autoptr(LlmContext) named = create (fixture, "{'name': <'notes'>}");
  g_autoptr(LlmContext) unnamed = create (fixture, "{}");
  g_autoptr(GPtrArray) mine = llm_engine_get_contexts (fixture->engine, same);
  g_autoptr(GPtrArray) others = llm_engine_get_contexts (fixture->engine, app);

  g_assert_cmpuint (mine->len, ==, 2);
  g_assert_cmpuint (others->len, ==, 0);
  g_assert_null (llm_engine_lookup_context (fixture->engine, app, llm_context_get_id (named)));
  g_assert_null (llm_engine_lookup_context (fixture->engine, user, llm_context_get_id (named)));
  g_assert_nonnull (llm_engine_lookup_context (fixture->engine, same, llm_context_get_id (named)));

  /* Whoever leaves takes along only what is unnamed. */
  llm_engine_caller_gone (fixture->engine, ":1.4");
  g_assert_nonnull (llm_engine_lookup_context (fixture->engine, same, llm_context_get_id (unnamed)));
  llm_engine_caller_gone (fixture->engine, ":1.1");
  g_assert_null (llm_engine_lookup_context (fixture->engine, same, llm_context_get_id (unnamed)));
  g_assert_nonnull (llm_engine_lookup_context (fixture->engine, same, llm_context_get_id (named)));
}

static void
test_full (Fixture      *fixture,
           gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{'max-tokens': <uint32 40>}");
  g_autoptr(GString) text = g_string_new (NULL);
  g_autoptr(Answer) too_long = NULL;
  g_autoptr(Answer) filling = NULL;

  for (guint i = 0; i < 100; i++)
    g_string_append (text, "word ");
  too_long = begin_ask (fixture, context, text->str, GREEDY);
  WAIT_FOR (too_long->is_finished);
  g_assert_error (too_long->error, LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_FULL);
  g_assert_nonnull (strstr (too_long->error->message, "40"));

  filling = begin_ask (fixture, context, "Hello!", "{'temperature': <0.0>, 'logit-bias': <{uint32 4: -100.0, uint32 2: -100.0}>}");
  WAIT_FOR (filling->is_finished);
  g_assert_no_error (filling->error);
  g_assert_cmpstr (result_string (filling, "finish-reason"), ==, "context-full");
  g_assert_cmpuint (llm_context_get_tokens (context), <=, 41);
}

/* --- a sink that fills up --- */

#define TEST_TYPE_SINK (test_sink_get_type ())
G_DECLARE_FINAL_TYPE (TestSink, test_sink, TEST, SINK, GObject)

struct _TestSink
{
  GObject parent_instance;

  GString *text;
  gboolean is_full;
  gboolean is_finished;
};

static void test_sink_iface_init (LlmSinkInterface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (TestSink, test_sink, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (LLM_TYPE_SINK, test_sink_iface_init))

static gboolean
test_sink_accept (LlmSink    *sink,
                  const char *text,
                  gsize       length)
{
  TestSink *self = TEST_SINK (sink);

  g_string_append_len (self->text, text, length);
  return !self->is_full;
}

static void
test_sink_finish (LlmSink      *sink,
                  GVariant     *results,
                  const GError *error)
{
  TEST_SINK (sink)->is_finished = TRUE;
  g_assert_no_error (error);
}

static void
test_sink_iface_init (LlmSinkInterface *iface)
{
  iface->accept = test_sink_accept;
  iface->finish = test_sink_finish;
}

static void
test_sink_finalize (GObject *object)
{
  g_string_free (TEST_SINK (object)->text, TRUE);
  G_OBJECT_CLASS (test_sink_parent_class)->finalize (object);
}

static void
test_sink_class_init (TestSinkClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = test_sink_finalize;
}

static void
test_sink_init (TestSink *self)
{
  self->text = g_string_new (NULL);
}

static void
test_parked (Fixture      *fixture,
             gconstpointer data)
{
  g_autoptr(LlmsvcOptions) options = parse_options (GREEDY, LLMSVC_CALL_COMPLETE);
  g_autofree char *expected = complete (fixture, "Find me a comedy movie.", GREEDY);
  g_autofree char *other = NULL;
  g_autoptr(TestSink) sink = g_object_new (TEST_TYPE_SINK, NULL);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(LlmGeneration) generation = NULL;
  gsize length;

  sink->is_full = TRUE;
  llm_engine_complete_async (fixture->engine, fixture->caller, "Find me a comedy movie.", options,
                             LLM_SINK (sink), on_result, &result);
  WAIT_FOR (result != NULL);
  generation = llm_engine_complete_finish (fixture->engine, result, NULL);
  WAIT_FOR (llm_generation_get_state (generation) == LLM_GENERATION_PARKED);

  /* Others go on, this one stands still. */
  other = complete (fixture, "I want a restaurant in San Jose.", GREEDY);
  length = sink->text->len;
  g_free (complete (fixture, "Hello!", GREEDY));
  g_assert_cmpuint (sink->text->len, ==, length);
  g_assert_cmpuint (sink->text->len, <, strlen (expected));
  g_assert_false (sink->is_finished);

  sink->is_full = FALSE;
  llm_sink_emit_drained (LLM_SINK (sink));
  WAIT_FOR (sink->is_finished);
  g_assert_cmpstr (sink->text->str, ==, expected);
}

/* --- memory and models --- */

static void
test_trim (Fixture      *fixture,
           gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autofree char *first = ask (fixture, context, "I want a restaurant in San Jose.", GREEDY);
  g_autofree char *second = ask (fixture, context, "Italian food, please.", GREEDY);
  g_autofree char *again = NULL;
  g_autoptr(GError) error = NULL;
  LlmMemoryFigures figures;

  llm_engine_get_memory (fixture->engine, &figures);
  g_assert_cmpuint (figures.weights, >, 7000000);
  g_assert_cmpuint (figures.kv_resident, >, 0);
  g_assert_cmpuint (figures.reclaimable[0] + figures.reclaimable[1] + figures.reclaimable[2], <=, figures.resident);

  g_assert_cmpuint (trim (fixture, "medium"), >, 0);
  llm_engine_get_memory (fixture->engine, &figures);
  g_assert_cmpuint (figures.kv_resident, ==, 0);
  g_assert_cmpuint (figures.weights, >, 0);
  g_assert_cmpstr (llm_context_get_residency (context), ==, "text");

  g_assert_cmpuint (trim (fixture, "critical"), >, 7000000);
  llm_engine_get_memory (fixture->engine, &figures);
  /* All is gone but the text of a context that lives nowhere else. */
  g_assert_cmpuint (figures.weights + figures.kv_resident, ==, 0);
  g_assert_cmpuint (figures.resident, <, 2000);
  g_assert_cmpuint (figures.resident, >, 0);
  g_assert_cmpstr (llm_engine_get_availability (fixture->engine), ==, "ready");

  /* Nothing was lost. */
  g_assert_true (rollback (context, 1, &error));
  again = ask (fixture, context, "Italian food, please.", GREEDY);
  g_assert_cmpstr (again, ==, second);
}

static void
test_budget (Fixture      *fixture,
             gconstpointer data)
{
  g_autoptr(Answer) refused = NULL;
  g_autoptr(GError) error = NULL;
  LlmMemoryFigures figures;

  g_free (complete (fixture, "Hello!", GREEDY));
  g_assert_true (set_budget (fixture, 1000000, &error));
  llm_engine_get_memory (fixture->engine, &figures);
  g_assert_cmpuint (figures.resident, <=, 1000000);
  g_assert_cmpuint (figures.budget, ==, 1000000);
  refused = begin_complete (fixture, "Hello!", GREEDY);
  WAIT_FOR (refused->is_finished);
  g_assert_error (refused->error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY);
  g_assert_true (set_budget (fixture, 0, &error));
  g_free (complete (fixture, "Hello!", GREEDY));
}

/* Context memory that no call uses makes room for a call that needs it. */
static void
test_budget_evicts (Fixture      *fixture,
                    gconstpointer data)
{
  g_autoptr(GError) error = NULL;
  LlmContext *contexts[4];

  g_free (complete (fixture, "Hello!", GREEDY));
  g_assert_true (set_budget (fixture, 9700000, &error));
  for (guint i = 0; i < G_N_ELEMENTS (contexts); i++)
    {
      contexts[i] = create (fixture, "{}");
      g_free (ask (fixture, contexts[i], "I want a restaurant in San Jose.", GREEDY));
    }
  WAIT_FOR (g_str_equal (llm_context_get_residency (contexts[0]), "text"));
  g_assert_cmpstr (llm_context_get_residency (contexts[3]), ==, "memory");
  for (guint i = 0; i < G_N_ELEMENTS (contexts); i++)
    g_object_unref (contexts[i]);
}

static void
test_no_model (void)
{
  LlmSettings *settings = llm_settings_new ();
  Fixture fixture = { .caller = llm_caller_new (0, "", ":1.1", FALSE, TRUE) };
  g_autoptr(Answer) answer = NULL;

  fixture.engine = llm_engine_new (settings);
  llm_engine_start (fixture.engine);
  answer = begin_complete (&fixture, "Hello!", GREEDY);
  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MODEL);
  g_assert_cmpstr (llm_engine_get_availability (fixture.engine), ==, "no-model");
  stop_engine (&fixture.engine);
  llm_caller_unref (fixture.caller);
}

/* A file that comes while the service runs is found by the next call; one that is
 * cut while in use makes calls fail, until it is whole again. */
static void
test_model_comes_and_goes (void)
{
  g_autofree char *folder = g_dir_make_tmp ("llm-test-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "tiny.gguf", NULL);
  g_autofree char *half = NULL;
  LlmSettings *settings = llm_settings_new ();
  Fixture fixture = { .caller = llm_caller_new (0, "", ":1.1", FALSE, TRUE) };
  const LlmTestModel shape = { .seed = 1 };
  g_autoptr(Answer) none = NULL;
  g_autoptr(Answer) cut = NULL;
  gsize length;

  g_strfreev (settings->model_folders);
  settings->model_folders = g_strdupv ((char *[]) { folder, NULL });
  fixture.engine = llm_engine_new (settings);
  llm_engine_start (fixture.engine);
  none = begin_complete (&fixture, "Hello!", "{'max-tokens': <uint32 3>}");
  WAIT_FOR (none->is_finished);
  g_assert_error (none->error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MODEL);

  llm_test_model_write (&shape, path);
  g_free (complete (&fixture, "Hello!", "{'max-tokens': <uint32 3>}"));
  g_assert_cmpstr (llm_engine_get_availability (fixture.engine), ==, "ready");

  g_assert_true (g_file_get_contents (path, &half, &length, NULL));
  g_assert_cmpint (truncate (path, length / 2), ==, 0);
  cut = begin_complete (&fixture, "Hello!", "{'max-tokens': <uint32 3>}");
  WAIT_FOR (cut->is_finished);
  g_assert_error (cut->error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);

  llm_test_model_write (&shape, path);
  g_free (complete (&fixture, "Hello!", "{'max-tokens': <uint32 3>}"));
  stop_engine (&fixture.engine);
  llm_caller_unref (fixture.caller);
}

static void
test_broken_model (void)
{
  g_autofree char *folder = g_dir_make_tmp ("llm-test-XXXXXX", NULL);
  LlmSettings *settings = llm_settings_new ();
  Fixture fixture = { .caller = llm_caller_new (0, "", ":1.1", FALSE, TRUE) };
  g_autoptr(Answer) answer = NULL;

  settings->model_file = g_build_filename (folder, "broken.gguf", NULL);
  g_assert_true (g_file_set_contents (settings->model_file, "GGUF\3\0\0\0 what now?", 18, NULL));
  fixture.engine = llm_engine_new (settings);
  llm_engine_start (fixture.engine);
  answer = begin_complete (&fixture, "Hello!", GREEDY);
  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
  g_assert_nonnull (strstr (answer->error->message, "broken.gguf"));
  g_assert_cmpstr (llm_engine_get_availability (fixture.engine), ==, "failed");
  g_assert_nonnull (strstr (llm_engine_get_availability_reason (fixture.engine), "broken.gguf"));
  stop_engine (&fixture.engine);
  llm_caller_unref (fixture.caller);
}

/* Another model: contexts go on from their text. */
static void
test_select_model (Fixture      *fixture,
                   gconstpointer data)
{
  g_autofree char *folder = g_dir_make_tmp ("llm-test-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "tiny.gguf", NULL);
  g_autofree char *broken = g_build_filename (folder, "broken.gguf", NULL);
  LlmSettings *settings = llm_settings_new ();
  const LlmTestModel shape = { .seed = 1 };
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GAsyncResult) wrong = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmContext) context = NULL;
  guint n_demo;

  llm_test_model_write (&shape, path);
  g_assert_true (g_file_set_contents (broken, "no such thing", -1, NULL));
  stop_engine (&fixture->engine);
  g_strfreev (settings->model_folders);
  settings->model_folders = g_strdupv ((char *[]) { (char *) g_getenv ("LLM_MODEL_DIR"), folder, NULL });
  settings->state_folder = g_strdup (fixture->state);
  fixture->engine = llm_engine_new (settings);
  llm_engine_start (fixture->engine);

  context = create (fixture, "{'name': <'notes'>}");
  g_free (ask (fixture, context, "Hello!", GREEDY));
  n_demo = llm_context_get_tokens (context);
  llm_engine_select_model_async (fixture->engine, "nothing", on_result, &wrong);
  WAIT_FOR (wrong != NULL);
  g_assert_false (llm_engine_select_model_finish (fixture->engine, wrong, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND);
  g_clear_error (&error);
  g_clear_object (&wrong);
  llm_engine_select_model_async (fixture->engine, "broken", on_result, &wrong);
  WAIT_FOR (wrong != NULL);
  g_assert_false (llm_engine_select_model_finish (fixture->engine, wrong, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
  g_clear_error (&error);

  llm_engine_select_model_async (fixture->engine, "tiny", on_result, &result);
  WAIT_FOR (result != NULL);
  g_assert_true (llm_engine_select_model_finish (fixture->engine, result, &error));
  g_assert_no_error (error);
  g_assert_cmpstr (llm_engine_get_active_model (fixture->engine)->id, ==, "tiny");
  g_free (ask (fixture, context, "And now?", "{'max-tokens': <uint32 4>}"));
  g_assert_cmpuint (count_messages (context), ==, 4);
  g_assert_cmpuint (llm_context_get_tokens (context), !=, n_demo);

  /* The choice survives, too. */
  stop_engine (&fixture->engine);
  settings = llm_settings_new ();
  g_strfreev (settings->model_folders);
  settings->model_folders = g_strdupv ((char *[]) { (char *) g_getenv ("LLM_MODEL_DIR"), folder, NULL });
  settings->state_folder = g_strdup (fixture->state);
  fixture->engine = llm_engine_new (settings);
  llm_engine_start (fixture->engine);
  g_free (complete (fixture, "Hello!", "{'max-tokens': <uint32 4>}"));
  g_assert_cmpstr (llm_engine_get_active_model (fixture->engine)->id, ==, "tiny");
}

static void
test_quota (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(LlmsvcOptions) options = parse_options ("{'contexts': <uint32 1>, 'calls': <uint32 1>}",
                                                    LLMSVC_CALL_SET_QUOTA);
  g_autoptr(LlmsvcOptions) none = parse_options ("{}", LLMSVC_CALL_CREATE_CONTEXT);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GAsyncResult) refused = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(Answer) first = NULL;
  g_autoptr(Answer) second = NULL;

  llm_engine_set_quota_async (fixture->engine, 1000, "org.example.App", options, on_result, &result);
  WAIT_FOR (result != NULL);
  g_assert_true (llm_engine_set_quota_finish (fixture->engine, result, &error));

  context = create (fixture, "{}");
  llm_engine_create_context_async (fixture->engine, fixture->caller, none, on_result, &refused);
  WAIT_FOR (refused != NULL);
  g_assert_null (llm_engine_create_context_finish (fixture->engine, refused, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_QUOTA_EXCEEDED);

  first = begin_complete (fixture, "Hello!", GREEDY);
  second = begin_complete (fixture, "Hello!", GREEDY);
  WAIT_FOR (second->is_finished);
  g_assert_error (second->error, LLMSVC_ERROR, LLMSVC_ERROR_QUOTA_EXCEEDED);
  WAIT_FOR (first->is_finished);
  g_assert_no_error (first->error);
}

#define ADD(path, func) g_test_add (path, Fixture, NULL, set_up, func, tear_down)

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/engine/same-text", test_same_text);
  ADD ("/engine/beside-others", test_beside_others);
  ADD ("/engine/results", test_results);
  ADD ("/engine/stop-string", test_stop_string);
  ADD ("/engine/turns", test_turns);
  ADD ("/engine/other-turn", test_other_turn);
  ADD ("/engine/append", test_append);
  ADD ("/engine/cancel", test_cancel);
  ADD ("/engine/deadline", test_deadline);
  ADD ("/engine/request-id", test_request_id);
  ADD ("/engine/restart", test_restart);
  ADD ("/engine/close", test_close);
  ADD ("/engine/isolation", test_isolation);
  ADD ("/engine/full", test_full);
  ADD ("/engine/parked", test_parked);
  ADD ("/engine/trim", test_trim);
  ADD ("/engine/budget", test_budget);
  ADD ("/engine/budget-evicts", test_budget_evicts);
  ADD ("/engine/select-model", test_select_model);
  ADD ("/engine/quota", test_quota);
  g_test_add_func ("/engine/no-model", test_no_model);
  g_test_add_func ("/engine/model-comes-and-goes", test_model_comes_and_goes);
  g_test_add_func ("/engine/broken-model", test_broken_model);
  return g_test_run ();
}
