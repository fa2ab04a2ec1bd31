/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Answers: in pieces, as a stream, as a whole, given up. */

#include <string.h>

#include "client-rig.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-template.h"

static const char script[] =
  "{\"version\":1,\"rules\":["
  "{\"when\":{\"prompt\":\"pieces\"},\"pieces\":[\"Grü\",\"ße, \",\"\",\"世界\",\"!\"]},"
  "{\"when\":{\"prompt\":\"slow\"},\"pieces\":[\"First\",\"second\"],\"piece-delay-ms\":3600000},"
  "{\"when\":{\"prompt\":\"never\"},\"pieces\":[\"x\"],\"delay-ms\":3600000},"
  "{\"when\":{\"prompt\":\"refused\"},"
  "\"error\":{\"name\":\"Overloaded\",\"message\":\"Too much\"}},"
  "{\"when\":{\"prompt\":\"broken\"},\"text\":\"Half \","
  "\"error\":{\"name\":\"NoMemory\",\"message\":\"No room\"}},"
  "{\"when\":{\"prompt\":\"calls\"},\"pieces\":[\"I look.\\n<tool_call>\\n{\\\"name\\\": \\\"clock\\\", "
  "\\\"arguments\\\": {}}\\n</tool\",\"_call>\\n<tool_call>\\n{\\\"name\\\": \\\"clock\\\", "
  "\\\"arguments\\\": {\\\"zone\\\": \\\"UTC\\\"}}\\n</tool_call>\"]},"
  "{\"text\":\"You said: {prompt}\"}]}";
static const LlmTestDaemonSetup setup = { .script = script };

#define N_LONG 10000

typedef struct
{
  ClientRig *rig;
  LlmsvcContext *context;
} Fixture;

static void
set_up (Fixture       *fixture,
        gconstpointer  data)
{
  g_autoptr(GError) error = NULL;

  fixture->rig = rig_new (data != NULL ? data : &setup);
  fixture->context = rig_create (fixture->rig->client, NULL, &error);
  g_assert_no_error (error);
}

/* Nothing of a test stays at the service. */
static void
tear_down (Fixture       *fixture,
           gconstpointer  data)
{
  g_object_unref (fixture->context);
  rig_wait_n_contexts (fixture->rig, 0);
  rig_free (fixture->rig);
}

static LlmsvcGeneration *
prompt (Fixture    *fixture,
        const char *text)
{
  g_autoptr(GError) error = NULL;
  LlmsvcGeneration *generation = rig_prompt (fixture->context, text, NULL, &error);

  g_assert_no_error (error);
  return generation;
}

static gboolean
is_not_busy (gpointer data)
{
  Fixture *fixture = data;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;

  answer = rig_ask (fixture->context, "Hello", NULL, &error);
  if (answer != NULL)
    return TRUE;

  rig_assert_error (error, LLMSVC_ERROR_CONTEXT_BUSY);
  return FALSE;
}

static void
on_notify (GObject    *object,
           GParamSpec *pspec,
           gpointer    data)
{
  g_string_append_printf (data, "%s ", pspec->name);
}

static void
test_pieces (Fixture       *fixture,
             gconstpointer  data)
{
  g_autoptr(LlmsvcGeneration) generation = prompt (fixture, "pieces");
  g_autoptr(GString) text = g_string_new (NULL);
  g_autoptr(GString) notified = g_string_new (NULL);
  g_autoptr(GError) error = NULL;
  LlmsvcAnswer *answer;
  guint n = 0;

  g_signal_connect (generation, "notify", G_CALLBACK (on_notify), notified);
  g_assert_false (llmsvc_generation_get_is_done (generation));
  g_assert_null (llmsvc_generation_get_answer (generation));
  for (;;)
    {
      g_autofree char *piece = rig_next (generation, NULL, &error);

      g_assert_no_error (error);
      if (piece == NULL)
        break;
      g_assert_cmpuint (strlen (piece), >, 0);
      g_assert_true (g_utf8_validate (piece, -1, NULL));
      g_string_append (text, piece);
      n++;
    }
  g_assert_cmpstr (text->str, ==, "Grüße, 世界!");
  g_assert_cmpuint (n, >=, 3);
  g_assert_cmpstr (notified->str, ==, "is-done answer ");

  /* the end stays the end */
  g_assert_null (rig_next (generation, NULL, &error));
  g_assert_no_error (error);

  answer = llmsvc_generation_get_answer (generation);
  g_assert_cmpstr (llmsvc_answer_get_text (answer), ==, text->str);
  g_assert_cmpint (llmsvc_answer_get_finish_reason (answer), ==, LLMSVC_FINISH_REASON_STOP);
  g_assert_cmpuint (llmsvc_answer_get_output_tokens (answer), >, 0);
  g_assert_cmpuint (llmsvc_answer_get_prompt_tokens (answer), >, 0);
  g_assert_cmpuint (llmsvc_answer_get_revision (answer), ==, 1);
  g_assert_cmpstr (llmsvc_answer_get_model_id (answer), ==, "mock");
  g_assert_cmpuint (g_strv_length ((GStrv) llmsvc_answer_get_ignored (answer)), ==, 0);
  /* read anew after the answer */
  g_assert_cmpuint (llmsvc_context_get_revision (fixture->context), ==, 1);
  g_assert_cmpuint (llmsvc_context_get_tokens (fixture->context), >, 0);
}

#define TOOLS                                                                                     \
  "[{\"type\": \"function\", \"function\": {\"name\": \"clock\", \"parameters\": {\"type\": "           \
  "\"object\", \"properties\": {\"zone\": {\"type\": \"string\"}}}}}]"

typedef struct
{
  LlmsvcGeneration *generation;
  GString *calls;
  gboolean is_early;      /* the first came while there was no answer */
} Told;

static void
on_tool_call (LlmsvcGeneration *generation,
              const char       *call,
              gpointer          data)
{
  Told *told = data;

  told->is_early |= !llmsvc_generation_get_is_done (generation);
  g_string_append_printf (told->calls, "%s%s", told->calls->len > 0 ? "," : "", call);
}

/* Each call is told when it is complete; together they are what the answer has in the end. */
static void
test_calls (Fixture       *fixture,
            gconstpointer  data)
{
  g_autoptr(LlmsvcOptions) options = llmsvc_options_new ();
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;
  Told told = { NULL, g_string_new (NULL), FALSE };
  g_autofree char *together = NULL;

  llmsvc_options_set_value (options, "tools", g_variant_new_string (TOOLS), &error);
  g_assert_no_error (error);
  generation = rig_prompt (fixture->context, "calls", options, &error);
  g_assert_no_error (error);
  g_signal_connect (generation, "tool-call", G_CALLBACK (on_tool_call), &told);
  answer = rig_finish (generation, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (llmsvc_answer_get_text (answer), ==, "I look.\n");
  together = g_strdup_printf ("[%s]", told.calls->str);
  g_assert_cmpstr (llmsvc_answer_get_tool_calls (answer), ==, together);
  g_assert_nonnull (strstr (together, "UTC"));
  g_assert_true (told.is_early);
  g_string_free (told.calls, TRUE);
}

/* Bytes, three at a time. */
static void
on_bytes (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  rig_on_ready (source, result, data);
}

static void
test_stream (Fixture       *fixture,
             gconstpointer  data)
{
  g_autoptr(LlmsvcGeneration) generation = prompt (fixture, "pieces");
  GInputStream *stream = llmsvc_generation_get_input_stream (generation);
  g_autoptr(GString) text = g_string_new (NULL);
  g_autoptr(GError) error = NULL;
  char buffer[3];
  gssize n;

  g_assert_true (stream == llmsvc_generation_get_input_stream (generation));
  do
    {
      GAsyncResult *result = NULL;

      g_input_stream_read_async (stream, buffer, sizeof buffer, G_PRIORITY_DEFAULT, NULL, on_bytes,
                                 &result);
      n = g_input_stream_read_finish (stream, rig_wait (&result), &error);
      g_assert_no_error (error);
      g_string_append_len (text, buffer, n);
    }
  while (n > 0);
  g_assert_cmpstr (text->str, ==, "Grüße, 世界!");
  g_assert_nonnull (llmsvc_generation_get_answer (generation));
}

/* Blocking, without the generation, and in another thread. */
static gpointer
read_all (gpointer data)
{
  g_autoptr(GInputStream) stream = data;
  g_autoptr(GString) text = g_string_new (NULL);
  g_autoptr(GError) error = NULL;
  char buffer[5];
  gssize n;

  while ((n = g_input_stream_read (stream, buffer, sizeof buffer, NULL, &error)) > 0)
    g_string_append_len (text, buffer, n);
  g_assert_no_error (error);
  return g_strdup (text->str);
}

static void
test_blocking (Fixture       *fixture,
               gconstpointer  data)
{
  g_autoptr(LlmsvcGeneration) here = prompt (fixture, "pieces");
  g_autofree char *text = NULL;
  g_autofree char *other_text = NULL;
  GInputStream *stream;
  GThread *thread;

  stream = g_object_ref (llmsvc_generation_get_input_stream (here));
  g_clear_object (&here);
  text = read_all (stream);
  g_assert_cmpstr (text, ==, "Grüße, 世界!");

  here = prompt (fixture, "pieces");
  stream = g_object_ref (llmsvc_generation_get_input_stream (here));
  thread = g_thread_new ("reader", read_all, stream);
  other_text = g_thread_join (thread);
  g_assert_cmpstr (other_text, ==, "Grüße, 世界!");
  g_assert_true (llmsvc_generation_get_is_done (here));
  rig_settle (fixture->rig);
}

static void
test_whole (Fixture       *fixture,
            gconstpointer  data)
{
  g_autoptr(LlmsvcGeneration) generation = prompt (fixture, "pieces");
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(LlmsvcAnswer) asked = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *first = rig_next (generation, NULL, &error);

  answer = rig_finish (generation, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (llmsvc_answer_get_text (answer), ==, "Grüße, 世界!");

  asked = rig_ask (fixture->context, "Hello", NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (llmsvc_answer_get_text (asked), ==, "You said: Hello");
}

static void
test_errors (Fixture       *fixture,
             gconstpointer  data)
{
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(LlmsvcOptions) options = llmsvc_options_new ();
  g_autoptr(GError) error = NULL;
  g_autofree char *piece = NULL;

  g_assert_null (rig_prompt (fixture->context, "refused", NULL, &error));
  rig_assert_error (error, LLMSVC_ERROR_OVERLOADED);
  g_assert_cmpstr (error->message, ==, "Too much");
  g_clear_error (&error);

  generation = prompt (fixture, "broken");
  piece = rig_next (generation, NULL, &error);
  g_assert_cmpstr (piece, ==, "Half ");
  for (guint i = 0; i < 2; i++)
    {
      g_assert_null (rig_next (generation, NULL, &error));
      rig_assert_error (error, LLMSVC_ERROR_NO_MEMORY);
      g_assert_cmpstr (error->message, ==, "No room");
      g_clear_error (&error);
    }
  g_assert_true (llmsvc_generation_get_is_done (generation));
  g_assert_null (llmsvc_generation_get_answer (generation));

  /* out of range as a property, which can't say so */
  g_object_set (options, "temperature", 50.0, NULL);
  g_assert_null (rig_ask (fixture->context, "Hello", options, &error));
  rig_assert_error (error, LLMSVC_ERROR_INVALID_OPTION);
  g_clear_error (&error);
  llmsvc_options_unset (options, "temperature");
  llmsvc_options_require (options, "telepathy");
  g_assert_null (rig_ask (fixture->context, "Hello", options, &error));
  rig_assert_error (error, LLMSVC_ERROR_UNSUPPORTED);
  g_clear_error (&error);

  llmsvc_options_unset (options, "require");
  g_object_set (options, "stream", "text", NULL);
  g_assert_true (llmsvc_options_set_value (options, "of-tomorrow", g_variant_new_boolean (TRUE),
                                           NULL));
  answer = rig_ask (fixture->context, "Hello", options, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (llmsvc_answer_get_text (answer), ==, "You said: Hello");
  g_assert_cmpstr (llmsvc_answer_get_ignored (answer)[0], ==, "of-tomorrow");

  g_assert_null (rig_ask (fixture->context, "\xff", NULL, &error));
  rig_assert_error (error, LLMSVC_ERROR_INVALID_ARGUMENT);
}

/* A read that is stopped loses nothing; two at a time are refused. */
static void
test_stop_reading (Fixture       *fixture,
                   gconstpointer  data)
{
  g_autoptr(LlmsvcGeneration) generation = prompt (fixture, "slow");
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(GError) error = NULL;
  GAsyncResult *result = NULL;
  GAsyncResult *cancelled = NULL;
  g_autofree char *piece = rig_next (generation, NULL, &error);

  g_assert_cmpstr (piece, ==, "First");
  llmsvc_generation_next_async (generation, cancellable, rig_on_ready, &result);
  g_assert_null (rig_next (generation, NULL, &error));
  rig_assert_error (error, LLMSVC_ERROR_FAILED);
  g_clear_error (&error);

  g_cancellable_cancel (cancellable);
  g_assert_null (llmsvc_generation_next_finish (generation, rig_wait (&result), &error));
  rig_assert_error (error, LLMSVC_ERROR_CANCELLED);
  g_clear_error (&error);
  g_assert_false (llmsvc_generation_get_is_done (generation));

  /* the next read goes on, here to the end of a cancelled answer */
  llmsvc_generation_next_async (generation, NULL, rig_on_ready, &result);
  llmsvc_generation_cancel_async (generation, NULL, rig_on_ready, &cancelled);
  while (result == NULL || cancelled == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_true (llmsvc_generation_cancel_finish (generation, rig_wait (&cancelled), &error));
  g_assert_no_error (error);
  g_assert_null (llmsvc_generation_next_finish (generation, rig_wait (&result), &error));
  rig_assert_error (error, LLMSVC_ERROR_CANCELLED);
  g_clear_error (&error);

  /* settled: the context is free at once, and the turn is not in it */
  g_assert_true (is_not_busy (fixture));
  g_assert_cmpuint (llmsvc_context_get_revision (fixture->context), ==, 1);
  llmsvc_generation_cancel_async (generation, NULL, rig_on_ready, &cancelled);
  g_assert_true (llmsvc_generation_cancel_finish (generation, rig_wait (&cancelled), &error));
}

static void
test_keep (Fixture       *fixture,
           gconstpointer  data)
{
  g_autoptr(LlmsvcOptions) options =
    g_object_new (LLMSVC_TYPE_OPTIONS, "on-cancel", "keep", NULL);
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *piece = NULL;
  GAsyncResult *result = NULL;

  generation = rig_prompt (fixture->context, "slow", options, &error);
  g_assert_no_error (error);
  piece = rig_next (generation, NULL, &error);
  llmsvc_generation_cancel_async (generation, NULL, rig_on_ready, &result);
  g_assert_true (llmsvc_generation_cancel_finish (generation, rig_wait (&result), &error));
  answer = rig_finish (generation, &error);
  g_assert_no_error (error);
  g_assert_cmpint (llmsvc_answer_get_finish_reason (answer), ==, LLMSVC_FINISH_REASON_CANCELLED);
  g_assert_cmpstr (llmsvc_answer_get_text (answer), ==, "First");
  g_assert_cmpuint (llmsvc_context_get_revision (fixture->context), ==, 1);
}

/* Each way of giving an answer up reaches the service: the context becomes free. */
typedef enum
{
  GIVE_UP_UNREF,
  GIVE_UP_CLOSE,
  GIVE_UP_CLOSE_READING,
  GIVE_UP_STREAM_UNREF,
  GIVE_UP_FINISH,
  GIVE_UP_ASK,
  GIVE_UP_PROMPT,
  N_WAYS
} Way;

static void
give_up (Fixture *fixture,
         Way      way)
{
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(GInputStream) stream = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *piece = NULL;
  GAsyncResult *result = NULL;

  if (way <= GIVE_UP_FINISH)
    {
      generation = prompt (fixture, "slow");
      piece = rig_next (generation, NULL, &error);
      g_assert_cmpstr (piece, ==, "First");
    }

  switch (way)
    {
    case GIVE_UP_CLOSE:
      stream = g_object_ref (llmsvc_generation_get_input_stream (generation));
      g_assert_true (g_input_stream_close (stream, NULL, &error));
      g_assert_null (rig_next (generation, NULL, &error));
      rig_assert_error (error, LLMSVC_ERROR_CANCELLED);
      break;
    case GIVE_UP_CLOSE_READING:
      llmsvc_generation_next_async (generation, NULL, rig_on_ready, &result);
      rig_settle (fixture->rig);
      g_assert_true (g_input_stream_close (llmsvc_generation_get_input_stream (generation), NULL,
                                           &error));
      g_assert_null (llmsvc_generation_next_finish (generation, rig_wait (&result), &error));
      rig_assert_error (error, LLMSVC_ERROR_CANCELLED);
      break;
    case GIVE_UP_STREAM_UNREF:
      stream = g_object_ref (llmsvc_generation_get_input_stream (generation));
      g_clear_object (&generation);
      break;
    case GIVE_UP_FINISH:
      llmsvc_generation_finish_async (generation, cancellable, rig_on_ready, &result);
      g_cancellable_cancel (cancellable);
      g_assert_null (llmsvc_generation_finish_finish (generation, rig_wait (&result), &error));
      rig_assert_error (error, LLMSVC_ERROR_CANCELLED);
      break;
    case GIVE_UP_ASK:
      llmsvc_context_ask_async (fixture->context, "never", NULL, cancellable, rig_on_ready,
                                &result);
      rig_settle (fixture->rig);
      g_cancellable_cancel (cancellable);
      g_assert_null (llmsvc_context_ask_finish (fixture->context, rig_wait (&result), &error));
      rig_assert_error (error, LLMSVC_ERROR_CANCELLED);
      break;
    case GIVE_UP_PROMPT:
      /* before the service has replied */
      llmsvc_context_prompt_async (fixture->context, "never", NULL, cancellable, rig_on_ready,
                                   &result);
      g_cancellable_cancel (cancellable);
      g_assert_null (llmsvc_context_prompt_finish (fixture->context, rig_wait (&result), &error));
      rig_assert_error (error, LLMSVC_ERROR_CANCELLED);
      break;
    case GIVE_UP_UNREF:
    case N_WAYS:
    default:
      break;
    }
}

static void
test_give_up (Fixture       *fixture,
              gconstpointer  data)
{
  for (int way = 0; way < N_WAYS; way++)
    {
      give_up (fixture, (Way) way);
      rig_wait_until (is_not_busy, fixture);
      g_assert_cmpuint (llmsvc_context_get_revision (fixture->context), ==, (guint) way + 1);
    }
}

/* Who does not read makes the service wait: it does not get to the end of the answer. */
static gboolean
is_parked (gpointer data)
{
  LlmsvcGeneration *generation = LLMSVC_GENERATION (data);
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(GVariant) statistics = NULL;
  g_autoptr(GVariant) dict = NULL;
  guint64 tokens = 0;

  g_object_get (generation, "context", &context, NULL);
  statistics = g_dbus_connection_call_sync (
    llmsvc_client_get_connection (llmsvc_context_get_client (context)), "org.llm.Service",
    "/org/llm/Service", "org.llm.Service", "GetStatistics", g_variant_new ("(a{sv})", NULL), NULL,
    G_DBUS_CALL_FLAGS_NONE, -1, NULL, NULL);
  dict = g_variant_get_child_value (statistics, 0);
  g_assert_true (g_variant_lookup (dict, "calls", "t", &tokens));
  return tokens == 1;
}

static void
test_back_pressure (void)
{
  g_autoptr(GString) long_script = g_string_new ("{\"version\":1,\"rules\":[{\"pieces\":[");
  LlmTestDaemonSetup long_setup = { NULL };
  Fixture fixture = { NULL };
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;

  /* each piece is a line of ten bytes, and all of them are more than a pipe holds */
  for (guint i = 0; i < N_LONG; i++)
    g_string_append_printf (long_script, "%s\"a\"", i > 0 ? "," : "");
  g_string_append (long_script, "]}],\"context-length\":131072}");
  long_setup.script = long_script->str;
  set_up (&fixture, &long_setup);

  generation = prompt (&fixture, "Go on");
  for (guint i = 0; i < 20; i++)
    {
      rig_settle (fixture.rig);
      g_assert_true (is_parked (generation));
    }
  answer = rig_finish (generation, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (strlen (llmsvc_answer_get_text (answer)), ==, N_LONG);
  g_clear_object (&generation);
  tear_down (&fixture, NULL);
}

/* The shipped model writes something, too. */
static void
test_model (void)
{
  g_autoptr(ClientRig) rig = rig_new (NULL);
  g_autoptr(LlmsvcOptions) options =
    g_object_new (LLMSVC_TYPE_OPTIONS, "max-tokens", 12, "temperature", 0.0, NULL);
  g_autoptr(LlmsvcContext) context = rig_create (rig->client, NULL, NULL);
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GString) text = g_string_new (NULL);
  g_autoptr(GError) error = NULL;

  generation = rig_prompt (context, "Tell me a story.", options, &error);
  g_assert_no_error (error);
  for (;;)
    {
      g_autofree char *piece = rig_next (generation, NULL, &error);

      g_assert_no_error (error);
      if (piece == NULL)
        break;
      g_string_append (text, piece);
    }
  g_assert_cmpstr (llmsvc_answer_get_text (llmsvc_generation_get_answer (generation)), ==,
                   text->str);
  g_assert_cmpuint (llmsvc_answer_get_output_tokens (llmsvc_generation_get_answer (generation)),
                    <=, 12);
  g_assert_cmpfloat (llmsvc_answer_get_ttft_ms (llmsvc_generation_get_answer (generation)), >, 0);

  answer = rig_complete (rig->client, "Tell me a story.", options, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (llmsvc_answer_get_text (answer), ==, text->str);
  g_assert_cmpuint (llmsvc_answer_get_revision (answer), ==, 0);
}

static void
on_reasoning (LlmsvcGeneration *generation,
              const char       *text,
              gpointer          data)
{
  g_assert_true (g_utf8_validate (text, -1, NULL));
  g_string_append (data, text);
}

/* What a model thinks comes as a signal while its answer is read, and is a part of its own. */
static void
test_thinking (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *model = g_build_filename (folder, "thinking.gguf", NULL);
  const LlmTestDaemonSetup thinks = { .model = model };
  g_autoptr(LlmsvcOptions) options = g_object_new (
    LLMSVC_TYPE_OPTIONS, "max-tokens", 60, "temperature", 0.0, "thinking", "20", NULL);
  g_autoptr(GString) reasoning = g_string_new (NULL);
  g_autoptr(GError) error = NULL;
  ClientRig *rig;

  llm_test_template_write_shipped ("thinking", NULL, NULL, model);
  rig = rig_new (&thinks);
  {
    g_autoptr(LlmsvcContext) context = rig_create (rig->client, NULL, NULL);
    g_autoptr(LlmsvcGeneration) generation =
      rig_prompt (context, "Write a long text about Rome.", options, &error);
    g_autoptr(LlmsvcAnswer) answer = NULL;
    g_autofree char *first = NULL;

    g_assert_no_error (error);
    g_signal_connect (generation, "reasoning", G_CALLBACK (on_reasoning), reasoning);
    first = rig_next (generation, NULL, &error);
    g_assert_no_error (error);
    g_assert_nonnull (first);
    g_assert_cmpuint (reasoning->len, >, 0);
    answer = rig_finish (generation, &error);
    g_assert_no_error (error);
    g_assert_cmpstr (llmsvc_answer_get_reasoning (answer), ==, reasoning->str);
    g_assert_cmpuint (llmsvc_answer_get_reasoning_tokens (answer), >, 20);
    g_assert_true (g_str_has_prefix (llmsvc_answer_get_text (answer), first));
    g_assert_null (strstr (llmsvc_answer_get_text (answer), "think"));
  }
  rig_wait_n_contexts (rig, 0);
  rig_free (rig);
  llm_test_folder_remove (folder);
}

static void
take_result (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  *(GAsyncResult **) data = g_object_ref (result);
}

/* What comes in lines beside the text is in the answer; an answer goes on without a message. */
static void
test_options (void)
{
  g_autoptr(ClientRig) rig = rig_new (NULL);
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(LlmsvcOptions) begins = g_object_new (LLMSVC_TYPE_OPTIONS, "max-tokens", 4,
                                                  "temperature", 0.0, "logprobs", 2, NULL);
  g_autoptr(LlmsvcOptions) goes_on = g_object_new (LLMSVC_TYPE_OPTIONS, "max-tokens", 4,
                                                   "temperature", 0.0, "continue", TRUE, NULL);
  g_autoptr(LlmsvcAnswer) first = NULL;
  g_autoptr(LlmsvcAnswer) alone = NULL;
  g_autoptr(LlmsvcAnswer) more = NULL;
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(GPtrArray) messages = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *joined = NULL;

  context = rig_create (rig->client, NULL, &error);
  g_assert_no_error (error);
  first = rig_ask (context, "Hello, how are you?", begins, &error);
  g_assert_no_error (error);
  g_assert_true (g_str_has_prefix (llmsvc_answer_get_logprobs (first), "[{\"id\":"));
  g_assert_true (g_str_has_suffix (llmsvc_answer_get_logprobs (first), "}]}]"));
  alone = rig_complete (rig->client, "Hello, how are you?", begins, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (llmsvc_answer_get_text (alone), ==, llmsvc_answer_get_text (first));
  g_assert_true (g_str_has_prefix (llmsvc_answer_get_logprobs (alone), "[{\"id\":"));

  llmsvc_context_generate_async (context, NULL, 0, goes_on, NULL, take_result, &result);
  generation = llmsvc_context_generate_finish (context, rig_wait (&result), &error);
  g_assert_no_error (error);
  more = rig_finish (generation, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (llmsvc_answer_get_logprobs (more), ==, "");
  messages = rig_list_messages (context);
  g_assert_cmpuint (messages->len, ==, 2);
  joined = g_strconcat (llmsvc_answer_get_text (first), llmsvc_answer_get_text (more), NULL);
  g_assert_cmpstr (llmsvc_message_get_text (messages->pdata[1]), ==, joined);
  g_assert_cmpuint (llmsvc_answer_get_revision (more), ==, 2);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) \
  g_test_add ("/libllmsvc/generation/" path, Fixture, NULL, set_up, function, tear_down)
  ADD ("pieces", test_pieces);
  ADD ("calls", test_calls);
  ADD ("stream", test_stream);
  ADD ("blocking", test_blocking);
  ADD ("whole", test_whole);
  ADD ("errors", test_errors);
  ADD ("stop-reading", test_stop_reading);
  ADD ("keep", test_keep);
  ADD ("give-up", test_give_up);
  g_test_add_func ("/libllmsvc/generation/back-pressure", test_back_pressure);
  g_test_add_func ("/libllmsvc/generation/model", test_model);
  g_test_add_func ("/libllmsvc/generation/thinking", test_thinking);
  g_test_add_func ("/libllmsvc/generation/options", test_options);

  return g_test_run ();
}
