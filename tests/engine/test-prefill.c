/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Prompts in W8A8: which arithmetic computed them is told, those of others are what they were, and
 * what was computed so is computed again so, whatever became of the memory meanwhile. Whether it is
 * faster here is up to the machine, so calls ask for it. */

#include "elastic-rig.h"

#include <string.h>

#include "common/llmsvc-error.h"

#define QUIET "'temperature': <0.0>, 'max-tokens': <uint32 16>, 'logprobs': <uint32 0>"
#define W8 "'prefill': <'w8a8'>"
/* More than 64 tokens. */
#define LONG \
  "I want to find an Italian restaurant in San Jose for four people tomorrow evening, at about half " \
  "past seven, with seating outdoors. It must not be too expensive. Please book a table there, and " \
  "then tell me what the weather will be like, and how I get there by bus from the airport."
#define SHORT "And another one?"

static void
set_up_prefill (Elastic       *self,
                gconstpointer  data)
{
  self->has_cache = TRUE;
  set_up_elastic (self, data);
}

static Answer *
await (Answer *answer)
{
  WAIT_FOR (answer->is_finished || answer->error != NULL);
  return answer;
}

/* (transfer full): the text and the log-probabilities of its tokens, in which every bit of K and V
 * tells. */
static char *
describe (Answer     *answer,
          const char *wanted)
{
  await (answer);
  g_assert_no_error (answer->error);
  g_assert_cmpstr (result_string (answer, "prefill"), ==, wanted);
  return g_strdup_printf ("%s %s", answer->text, result_string (answer, "logprobs"));
}

static char *
complete_so (Elastic    *self,
             const char *prompt,
             const char *options,
             const char *wanted)
{
  g_autoptr(Answer) answer = begin_complete (&self->fixture, prompt, options);

  return describe (answer, wanted);
}

/* The first call that asks for it waits for its weights. */
static void
await_weights (Elastic *self)
{
  g_autoptr(Answer) answer =
    await (begin_complete (&self->fixture, "Hi", "{" W8 ", 'max-tokens': <uint32 1>}"));

  g_assert_no_error (answer->error);
  g_assert_cmpstr (result_string (answer, "prefill"), ==, "w8a8");
}

static void
expect_reason (Elastic    *self,
               const char *prompt,
               const char *options,
               const char *reason)
{
  g_autoptr(Answer) answer = await (begin_complete (&self->fixture, prompt, options));

  g_assert_no_error (answer->error);
  g_assert_cmpstr (result_string (answer, "prefill"), ==, "exact");
  g_assert_cmpstr (result_string (answer, "prefill-reason"), ==, reason);
}

/* It is another arithmetic, and the same each time; exact answers stay what they were. */
static void
test_answers (Elastic       *self,
              gconstpointer  data)
{
  g_autofree char *before = complete_so (self, LONG, "{" QUIET ", 'prefill': <'exact'>}", "exact");
  g_autofree char *so = NULL, *again = NULL, *after = NULL;

  await_weights (self);
  so = complete_so (self, LONG, "{" QUIET ", " W8 "}", "w8a8");
  again = complete_so (self, LONG, "{" QUIET ", " W8 "}", "w8a8");
  after = complete_so (self, LONG, "{" QUIET ", 'prefill': <'exact'>}", "exact");
  g_assert_cmpstr (so, ==, again);
  g_assert_cmpstr (so, !=, before);
  g_assert_cmpstr (after, ==, before);
  expect_reason (self, LONG, "{'prefill': <'exact'>}", "asked-for");
  expect_reason (self, SHORT, "{}", "short");
}

/* By itself where it is faster here, and where memory has room for the weights. */
static void
test_auto (Elastic       *self,
           gconstpointer  data)
{
  g_autoptr(Answer) answer = NULL;

  await_weights (self);
  answer = await (begin_complete (&self->fixture, LONG, "{}"));
  g_assert_no_error (answer->error);
  if (g_strcmp0 (data, "prefill-lossy") == 0)
    g_assert_cmpstr (result_string (answer, "prefill-reason"), ==, "loss");
  else if (g_strcmp0 (result_string (answer, "prefill"), "w8a8") != 0)
    g_assert_cmpstr (result_string (answer, "prefill-reason"), ==, "slower");
}

/* Beside prompts of the other arithmetic, which wait for the same steps, as alone. */
static void
test_together (Elastic       *self,
               gconstpointer  data)
{
  static const char *const options[] = {
    "{" QUIET ", " W8 "}", "{" QUIET ", 'prefill': <'exact'>}", "{" QUIET ", " W8 ", 'slo': <'background'>}",
    "{" QUIET ", 'prefill': <'exact'>}", "{" QUIET ", " W8 "}",
  };
  char *alone[G_N_ELEMENTS (options)];
  Answer *answers[G_N_ELEMENTS (options)];

  await_weights (self);
  for (guint i = 0; i < G_N_ELEMENTS (options); i++)
    alone[i] = complete_so (self, LONG, options[i], i % 2 == 0 ? "w8a8" : "exact");
  g_assert_cmpstr (alone[0], ==, alone[4]);
  for (guint i = 0; i < G_N_ELEMENTS (options); i++)
    answers[i] = begin_complete (&self->fixture, LONG, options[i]);
  for (guint i = 0; i < G_N_ELEMENTS (options); i++)
    {
      g_autofree char *found = describe (answers[i], i % 2 == 0 ? "w8a8" : "exact");

      g_assert_cmpstr (found, ==, alone[i]);
      answer_free (answers[i]);
      g_free (alone[i]);
    }
}

/* Turns of both arithmetics in a context; with @restarts the service ends after each, and what it had
 * on storage is gone after every other. Returns the texts. */
static char *
converse (Elastic    *self,
          const char *name,
          const char *more,
          gboolean    restarts)
{
  g_autoptr(GString) texts = g_string_new (NULL);
  guint n_before = 0;

  for (guint i = 0; i < 5; i++)
    {
      gboolean is_w8 = i % 3 != 1;
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmContext) context =
        open_context (&self->fixture, name, "{'create': <true>}", &error);
      g_autofree char *options =
        g_strdup_printf ("{" QUIET "%s, 'prefill': <'%s'>}", more, is_w8 ? "w8a8" : "exact");
      g_autofree char *text = NULL;
      g_autoptr(Answer) answer = NULL;

      g_assert_no_error (error);
      answer = begin_ask (&self->fixture, context, i % 2 == 0 ? LONG : SHORT, options);
      text = describe (answer, is_w8 ? "w8a8" : "exact");
      /* what was computed so is used as it is, but for the last token, which is not computed */
      if (!restarts)
        g_assert_cmpuint (result_uint (answer, "cached-tokens") + 1, >=, n_before);
      n_before = result_uint (answer, "prompt-tokens") + result_uint (answer, "output-tokens");
      g_string_append_printf (texts, "%s\n", text);
      g_clear_object (&context);
      if (restarts)
        {
          stop_engine (&self->fixture.engine);
          if (i % 2 == 0)
            elastic_remove_chunks (self);
          self->fixture.engine = elastic_start (self);
        }
    }
  return g_string_free (g_steal_pointer (&texts), FALSE);
}

static void
test_turns (Elastic       *self,
            gconstpointer  data)
{
  const char *more = g_strcmp0 (data, "prefill-both") == 0 ? ", 'sub-model': <uint32 70>" : "";
  g_autofree char *at_once = NULL, *restarted = NULL;

  await_weights (self);
  at_once = converse (self, "a", more, FALSE);
  restarted = converse (self, "b", more, TRUE);
  g_assert_cmpstr (at_once, ==, restarted);
}

/* What contexts of an application have in common is shared, but not with those of the other
 * arithmetic. */
static void
test_shared (Elastic       *self,
             gconstpointer  data)
{
  static const char *const ways[] = { "w8a8", "exact", "w8a8", "exact" };

  await_weights (self);
  for (guint i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      g_autoptr(LlmContext) context = create (&self->fixture, "{'system': <'" LONG "'>}");
      g_autofree char *options = g_strdup_printf ("{" QUIET ", 'prefill': <'%s'>}", ways[i]);
      g_autoptr(Answer) answer = begin_ask (&self->fixture, context, SHORT, options);

      g_free (describe (answer, ways[i]));
      if (i < 2)
        g_assert_cmpuint (result_uint (answer, "cached-tokens"), ==, 0);
      else
        g_assert_cmpuint (result_uint (answer, "cached-tokens"), >=, 64);
    }
}

/* The first memory that goes; then prompts are exact, unless they ask for it: the file has the same
 * weights. */
static void
test_reclaimed (Elastic       *self,
                gconstpointer  data)
{
  g_autofree char *before = NULL, *after = NULL;
  g_autoptr(Answer) answer = NULL;

  await_weights (self);
  before = complete_so (self, LONG, "{" QUIET ", " W8 "}", "w8a8");
  g_assert_cmpuint (get_statistic (self->fixture.engine, "given-prompt-weights-bytes"), ==, 0);
  trim (&self->fixture, "low");
  g_assert_cmpuint (get_statistic (self->fixture.engine, "given-prompt-weights-bytes"), >, 1 << 20);
  answer = await (begin_complete (&self->fixture, LONG, "{}"));
  g_assert_cmpstr (result_string (answer, "prefill"), ==, "exact");
  if (!g_str_equal (result_string (answer, "prefill-reason"), "slower"))
    g_assert_cmpstr (result_string (answer, "prefill-reason"), ==, "memory");
  after = complete_so (self, LONG, "{" QUIET ", " W8 "}", "w8a8");
  g_assert_cmpstr (after, ==, before);
}

/* Taken back and asked again in the other arithmetic, from what storage has: nothing of the first is
 * used. */
static void
test_again (Elastic       *self,
            gconstpointer  data)
{
  static const char *const ways[] = { "w8a8", "exact", "w8a8" };

  await_weights (self);
  for (guint i = 0; i + 1 < G_N_ELEMENTS (ways); i++)
    {
      g_autofree char *name = g_strdup_printf ("context %u", i);
      g_autofree char *first = g_strdup_printf ("{" QUIET ", 'prefill': <'%s'>}", ways[i]);
      g_autofree char *second = g_strdup_printf ("{" QUIET ", 'prefill': <'%s'>}", ways[i + 1]);
      g_autofree char *reference = complete_so (self, LONG, second, ways[i + 1]);
      g_autofree char *found = NULL;
      g_autoptr(LlmContext) context = open_context (&self->fixture, name, "{'create': <true>}", NULL);
      g_autoptr(Answer) answer = NULL;

      answer = begin_ask (&self->fixture, context, LONG, first);
      g_free (describe (answer, ways[i]));
      g_clear_pointer (&answer, answer_free);
      g_clear_object (&context);
      stop_engine (&self->fixture.engine);
      self->fixture.engine = elastic_start (self);
      context = open_context (&self->fixture, name, "{}", NULL);
      g_assert_true (rollback (context, 1, NULL));
      answer = begin_ask (&self->fixture, context, LONG, second);
      found = describe (answer, ways[i + 1]);
      g_assert_cmpuint (result_uint (answer, "cached-tokens"), ==, 0);
      g_assert_cmpstr (found, ==, reference);
    }
}

/* An answer in pieces has the bytes of one longer call, also when what it had on storage is lost between
 * them: its turn stays as it was computed. */
static void
test_continued (Elastic       *self,
                gconstpointer  data)
{
  static const char more[] = "{'temperature': <0.0>, 'max-tokens': <uint32 8>, 'continue': <true>}";
  g_autofree char *whole = NULL;
  g_autoptr(GString) pieces = g_string_new (NULL);

  await_weights (self);
  {
    g_autoptr(LlmContext) context = create (&self->fixture, "{}");

    whole = ask (&self->fixture, context, LONG, "{'temperature': <0.0>, 'max-tokens': <uint32 24>, " W8 "}");
  }
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr(LlmContext) context = open_context (&self->fixture, "a", "{'create': <true>}", NULL);
      g_autoptr(Answer) answer =
        i == 0 ? await (begin_ask (&self->fixture, context, LONG,
                                   "{'temperature': <0.0>, 'max-tokens': <uint32 8>, " W8 "}"))
               : go_on (&self->fixture, context, more);

      g_assert_no_error (answer->error);
      g_assert_cmpstr (result_string (answer, "prefill"), ==, i == 0 ? "w8a8" : "exact");
      if (i > 0)
        g_assert_cmpstr (result_string (answer, "prefill-reason"), ==, "continued");
      g_string_append (pieces, answer->text);
      g_clear_object (&context);
      stop_engine (&self->fixture.engine);
      if (i == 1)
        elastic_remove_chunks (self);
      self->fixture.engine = elastic_start (self);
    }
  g_assert_cmpstr (pieces->str, ==, whole);
}

/* What an earlier service computed so is used at once, though nothing was prepared in this one yet: the
 * file is found with the model. */
static void
test_restarted (Elastic       *self,
                gconstpointer  data)
{
  guint n_before;

  await_weights (self);
  {
    g_autoptr(LlmContext) context = open_context (&self->fixture, "a", "{'create': <true>}", NULL);
    g_autoptr(Answer) answer = begin_ask (&self->fixture, context, LONG, "{" QUIET ", " W8 "}");

    g_free (describe (answer, "w8a8"));
    n_before = result_uint (answer, "prompt-tokens");
  }
  stop_engine (&self->fixture.engine);
  self->fixture.engine = elastic_start (self);
  {
    g_autoptr(LlmContext) context = open_context (&self->fixture, "a", "{}", NULL);
    g_autoptr(Answer) answer = begin_ask (&self->fixture, context, SHORT, "{" QUIET ", " W8 "}");

    g_free (describe (answer, "w8a8"));
    g_assert_cmpuint (result_uint (answer, "cached-tokens"), >=, n_before - 16);
  }
}

/* A call that waits for its weights ends with the service. */
static void
test_ended (Elastic       *self,
            gconstpointer  data)
{
  g_autoptr(Answer) answer = begin_complete (&self->fixture, LONG, "{" W8 "}");

  for (guint i = 0; i < 3; i++)
    iterate ();
  stop_engine (&self->fixture.engine);
  await (answer);
  if (answer->error != NULL)
    g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED);
  self->fixture.engine = elastic_start (self);
  await_weights (self);
}

static void
test_without (Elastic       *self,
              gconstpointer  data)
{
  g_autoptr(Answer) answer = NULL;

  expect_reason (self, LONG, "{}", "not-calibrated");
  answer = await (begin_complete (&self->fixture, LONG, "{" W8 "}"));
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
  g_assert_nonnull (strstr (answer->error->message, "llmsvc-tool calibrate -m "));
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

#define ADD(name, data, func) \
  g_test_add ("/prefill/" name, Elastic, data, set_up_prefill, func, tear_down_elastic)
  ADD ("answers", "prefill", test_answers);
  ADD ("auto", "prefill", test_auto);
  ADD ("lossy", "prefill-lossy", test_auto);
  ADD ("together", "prefill", test_together);
  ADD ("turns", "prefill", test_turns);
  ADD ("turns-of-a-sub-model", "prefill-both", test_turns);
  ADD ("shared", "prefill", test_shared);
  ADD ("reclaimed", "prefill", test_reclaimed);
  ADD ("restarted", "prefill", test_restarted);
  ADD ("continued", "prefill", test_continued);
  ADD ("again", "prefill", test_again);
  ADD ("ended", "prefill", test_ended);
  ADD ("without", "none", test_without);

  return g_test_run ();
}
