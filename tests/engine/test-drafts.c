/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Drafts over the engine: which one the configuration and a call name, when it is loaded and goes
 * again, that the text is the same, also with Trim in mid-verification, and what is remembered of
 * it over calls. */

#include <string.h>

#include "common/llmsvc-error.h"
#include "engine-rig.h"
#include "engine/llm-engine-private.h"
#include "engine/models/llm-engine-models.h"
#include "support/llm-test-folder.h"

#define TARGET "llmsvc-demo-8M-Q8_0"
#define DRAFT "llmsvc-demo-draft-1M-F16"
#define OTHER "other-vocabulary"
#define PROMPT "Red, green, blue. Red, green, blue. Red, green, blue. Red, green,"
#define N_TOGETHER 4

typedef struct
{
  Fixture parent;
  char *models;     /* folder */
} Drafts;

static void
copy_model (const char *folder,
            const char *name,
            const char *to)
{
  g_autofree char *file = g_strconcat (name, ".gguf", NULL);
  g_autofree char *from = g_build_filename (folder, file, NULL);

  g_assert_cmpint (symlink (from, to), ==, 0);
}

/* The draft, but for one token. */
static void
write_other (const char *folder,
             const char *to)
{
  g_autofree char *from = g_build_filename (folder, DRAFT ".gguf", NULL);
  g_autofree char *data = NULL;
  char *token;
  gsize n;

  g_assert_true (g_file_get_contents (from, &data, &n, NULL));
  token = memmem (data, n, "people", 6);
  g_assert_nonnull (token);
  token[5] = 'i';
  g_assert_true (g_file_set_contents (to, data, (gssize) n, NULL));
}

/* @drafts: as in the configuration. */
static void
start (Drafts     *self,
       const char *drafts)
{
  g_autofree char *data = g_build_filename (g_getenv ("LLM_TEST_DATA"), "models", NULL);
  g_autofree char *target = NULL, *draft = NULL, *other = NULL;
  LlmSettings *settings;

  self->parent.state = llm_test_folder_new ();
  self->models = llm_test_folder_new ();
  target = g_build_filename (self->models, "a-" TARGET ".gguf", NULL);
  draft = g_build_filename (self->models, DRAFT ".gguf", NULL);
  other = g_build_filename (self->models, OTHER ".gguf", NULL);
  copy_model (g_getenv ("LLM_MODEL_DIR"), TARGET, target);
  copy_model (data, DRAFT, draft);
  write_other (data, other);
  settings = new_settings (self->parent.state, 2);
  g_strfreev (settings->model_folders);
  settings->model_folders = g_strdupv ((char *[]) { self->models, NULL });
  g_strfreev (settings->drafts);
  settings->drafts = g_strsplit (drafts, ";", -1);
  /* what a context holds stays as it was computed, whatever time it had */
  settings->context_ratio = 0;
  self->parent.engine = start_engine_with (settings);
  self->parent.caller = llm_caller_new (1000, "org.example.App", ":1.1", LLM_CALLER_HOST);
}

static void
end (Drafts *self)
{
  tear_down (&self->parent, NULL);
  llm_test_folder_remove (self->models);
  g_free (self->models);
}

/* Tokens that end an answer don't come. */
#define ENDLESS "'logit-bias': <{uint32 4: -100.0, uint32 2: -100.0}>"

/* @more: further options, behind a comma. */
static Answer *
begin_with (Drafts     *self,
            const char *draft,
            double      temperature,
            guint       n_tokens,
            const char *more)
{
  g_autofree char *options = g_strdup_printf (
    "{'temperature': <%f>, 'seed': <uint64 7>, 'raw': <true>, 'max-tokens': <uint32 %u>, "
    "'repeat-penalty': <1.05>, 'draft': <'%s'>, " ENDLESS "%s}", temperature, n_tokens, draft, more);

  return begin_complete (&self->parent, PROMPT, options);
}

static Answer *
begin (Drafts     *self,
       const char *draft,
       double      temperature,
       guint       n_tokens)
{
  return begin_with (self, draft, temperature, n_tokens, "");
}

static Answer *
answer (Drafts     *self,
        const char *draft,
        double      temperature,
        guint       n_tokens)
{
  Answer *found = begin (self, draft, temperature, n_tokens);

  WAIT_FOR (found->is_finished);
  return found;
}

static void
assert_fails (Drafts     *self,
              const char *draft,
              int         code,
              const char *word)
{
  g_autoptr(Answer) found = answer (self, draft, 0, 4);

  g_assert_error (found->error, LLMSVC_ERROR, code);
  g_assert_nonnull (strstr (found->error->message, word));
}

/* The configured one, by its name and without. */
static void
test_configured (void)
{
  const char *const drafts[] = { "lookup", "auto", DRAFT };
  const double temperatures[] = { 0, 0.8, 1.2 };
  LlmDraftSums sums;
  Drafts self = { 0 };

  start (&self, OTHER ";a-" TARGET ":" DRAFT);
  answer_free (answer (&self, "off", 0, 8));
  WAIT_FOR (get_statistic (self.parent.engine, "draft-loads") == 1);
  for (guint t = 0; t < G_N_ELEMENTS (temperatures); t++)
    {
      g_autoptr(Answer) plain = answer (&self, "off", temperatures[t], 100);

      g_assert_no_error (plain->error);
      for (guint i = 0; i < G_N_ELEMENTS (drafts); i++)
        {
          g_autoptr(Answer) found = NULL;

          make_rows_free (&self.parent);
          found = answer (&self, drafts[i], temperatures[t], 100);
          g_assert_no_error (found->error);
          g_assert_cmpstr (found->text, ==, plain->text);
          g_assert_true (g_variant_lookup (found->results, "passes", "u", NULL));
        }
    }
  sums = llm_engine_sum_drafts (self.parent.engine, "a-" TARGET);
  g_assert_cmpuint (sums.n_accepted, >, 0);
  g_assert_cmpuint (sums.n_drafted, >=, sums.n_accepted);
  g_assert_cmpuint (sums.n_passes, >, 0);
  g_assert_cmpuint (get_statistic (self.parent.engine, "accepted-tokens"), ==, sums.n_accepted);
  /* both sources were judged and have learned: the next call goes on with that */
  g_assert_cmpuint (g_hash_table_size (self.parent.engine->drafts.draft_records), ==, 2);

  assert_fails (&self, OTHER, LLMSVC_ERROR_INVALID_OPTION, DRAFT);
  assert_fails (&self, "nothing", LLMSVC_ERROR_INVALID_OPTION, "nothing");
  end (&self);
}

/* With none, and with one of other tokens, `auto` still works. */
static void
test_unusable (void)
{
  Drafts self = { 0 };

  start (&self, "a-" TARGET ":" OTHER);
  answer_free (answer (&self, "off", 0, 4));
  WAIT_FOR (self.parent.engine->drafts.draft_error != NULL);
  assert_fails (&self, OTHER, LLMSVC_ERROR_UNSUPPORTED, "vocabulary");
  {
    g_autoptr(Answer) found = answer (&self, "auto", 0, 8);

    g_assert_no_error (found->error);
  }
  g_assert_cmpuint (get_statistic (self.parent.engine, "draft-loads"), ==, 0);
  end (&self);

  start (&self, "missing");
  answer_free (answer (&self, "off", 0, 4));
  WAIT_FOR (self.parent.engine->drafts.draft_error != NULL);
  assert_fails (&self, "missing", LLMSVC_ERROR_NOT_FOUND, "missing");
  end (&self);
}

/* Before the weights of the model that it guesses for; the next call has it loaded again. */
static void
test_pressure (void)
{
  Drafts self = { 0 };
  guint64 bytes;

  start (&self, DRAFT);
  answer_free (answer (&self, "off", 0, 4));
  WAIT_FOR (get_statistic (self.parent.engine, "draft-loads") == 1);
  bytes = llm_engine_get_draft_bytes (self.parent.engine);
  g_assert_cmpuint (bytes, >, 0);
  while (self.parent.engine->drafts.draft != NULL)
    {
      g_autoptr(LlmCallOptions) options =
        parse_options ("{'target-bytes': <uint64 1>}", LLMSVC_CALL_TRIM);
      g_autoptr(GAsyncResult) result = NULL;

      g_assert_cmpuint (get_statistic (self.parent.engine, "given-pages-bytes"), ==, 0);
      g_assert_cmpuint (get_statistic (self.parent.engine, "given-weights-bytes"), ==, 0);
      llm_engine_trim_async (self.parent.engine, self.parent.caller, LLM_PRESSURE_CRITICAL, options,
                             on_result, &result);
      WAIT_FOR (result != NULL);
    }
  g_assert_cmpuint (get_statistic (self.parent.engine, "given-draft-bytes"), ==, bytes);
  g_assert_nonnull (self.parent.engine->use.model);
  answer_free (answer (&self, "off", 0, 4));
  g_assert_null (self.parent.engine->drafts.draft);
  answer_free (answer (&self, DRAFT, 0, 4));
  WAIT_FOR (get_statistic (self.parent.engine, "draft-loads") == 2);
  /* and goes with the model */
  trim (&self.parent, "critical");
  g_assert_null (self.parent.engine->use.model);
  g_assert_null (self.parent.engine->drafts.draft);
  end (&self);
}

/* (transfer full): six characters of @text that are not there before: as late ones as there are. */
static char *
find_stop (const char *text)
{
  g_autofree char *last = NULL;

  for (const char *p = text; g_utf8_strlen (p, -1) >= 6; p = g_utf8_next_char (p))
    {
      g_autofree char *found = g_utf8_substring (p, 0, 6);

      if (strstr (text, found) == p)
        {
          g_free (last);
          last = g_steal_pointer (&found);
        }
    }
  return g_steal_pointer (&last);
}

/* The end that a stop string makes may be among guesses that were right. */
static void
test_stop_string (void)
{
  const char *const drafts[] = { "off", "lookup", DRAFT };
  const double temperatures[] = { 0, 0.8 };
  Drafts self = { 0 };

  start (&self, DRAFT);
  answer_free (answer (&self, "off", 0, 4));
  WAIT_FOR (get_statistic (self.parent.engine, "draft-loads") == 1);
  for (guint t = 0; t < G_N_ELEMENTS (temperatures); t++)
    {
      g_autoptr(Answer) whole = answer (&self, "off", temperatures[t], 100);
      g_autofree char *stop = find_stop (whole->text);
      g_autoptr(GVariant) string = g_variant_ref_sink (g_variant_new_string (stop));
      g_autofree char *quoted = g_variant_print (string, FALSE);
      g_autofree char *more = g_strdup_printf (", 'stop': <[%s]>", quoted);
      guint n_tokens = 0;

      for (guint i = 0; i < G_N_ELEMENTS (drafts); i++)
        {
          g_autoptr(Answer) found = NULL;

          make_rows_free (&self.parent);
          found = begin_with (&self, drafts[i], temperatures[t], 100, more);
          WAIT_FOR (found->is_finished);
          g_assert_no_error (found->error);
          g_assert_cmpstr (result_string (found, "finish-reason"), ==, "stop");
          g_assert_cmpuint (strlen (found->text), ==, strstr (whole->text, stop) - whole->text);
          g_assert_true (g_str_has_prefix (whole->text, found->text));
          if (i > 0)
            g_assert_cmpuint (result_uint (found, "output-tokens"), ==, n_tokens);
          n_tokens = result_uint (found, "output-tokens");
        }
    }
  g_assert_cmpuint (get_statistic (self.parent.engine, "accepted-tokens"), >, 0);
  end (&self);
}

/* Cancelled wherever it is: what the context goes on with has nothing of what was guessed. */
static void
test_cancel (void)
{
  const char *const drafts[] = { "off", "lookup", DRAFT };
  const char question[] = "Red, green, blue. Red, green, blue. What is next?";
  g_autofree char *expected = NULL;
  Drafts self = { 0 };

  start (&self, DRAFT);
  answer_free (answer (&self, "off", 0, 4));
  WAIT_FOR (get_statistic (self.parent.engine, "draft-loads") == 1);
  for (guint i = 0; i < G_N_ELEMENTS (drafts); i++)
    {
      g_autofree char *options = g_strdup_printf (
        "{'temperature': <0.8>, 'seed': <uint64 3>, 'max-tokens': <uint32 300>, 'draft': <'%s'>, "
        ENDLESS "}", drafts[i]);
      g_autofree char *shorter = g_strdup_printf (
        "{'temperature': <0.0>, 'max-tokens': <uint32 60>, 'draft': <'%s'>, " ENDLESS "}",
        drafts[i]);
      g_autoptr(LlmContext) context = create (&self.parent, "{}");
      g_autofree char *text = NULL;
      guint n_cancelled = 0;

      g_free (ask (&self.parent, context, question, shorter));
      for (guint j = 0; j < MAX_ATTEMPTS && n_cancelled < 4; j++)
        {
          g_autoptr(LlmCallOptions) parsed = parse_options (options, LLMSVC_CALL_ASK);
          g_autoptr(TestSink) sink = test_sink_new ();
          g_autoptr(GAsyncResult) begun = NULL, cancelled = NULL;
          g_autoptr(LlmGeneration) generation = NULL;
          guint64 revision = context->revision;

          make_rows_free (&self.parent);
          llm_context_generate_async (context, self.parent.caller, user_message (question), parsed,
                                      &sink->parent, on_result, &begun);
          WAIT_FOR (begun != NULL);
          generation = g_task_propagate_pointer (G_TASK (begun), NULL);
          g_assert_nonnull (generation);
          WAIT_FOR (sink->text->len > 60 * n_cancelled || sink->is_finished);
          llm_generation_cancel_async (generation, on_result, &cancelled);
          WAIT_FOR (cancelled != NULL && sink->is_finished);
          if (context->revision == revision)
            n_cancelled++;
          else
            g_assert_true (rollback (context, 1, NULL));
        }
      g_assert_cmpuint (n_cancelled, ==, 4);
      make_rows_free (&self.parent);
      text = ask (&self.parent, context, question, shorter);
      if (i == 0)
        expected = g_steal_pointer (&text);
      else
        g_assert_cmpstr (text, ==, expected);
    }
  end (&self);
}

static guint
count_unfinished (Answer *const *answers)
{
  guint n = 0;

  for (guint i = 0; i < N_TOGETHER; i++)
    n += !answers[i]->is_finished;
  return n;
}

/* Four calls at once, while all that can be given is given again and again. */
static void
test_trims (void)
{
  Drafts self = { 0 };
  Answer *found[N_TOGETHER];
  g_autoptr(Answer) plain = NULL;
  guint n_trims = 0;

  start (&self, DRAFT);
  plain = answer (&self, "off", 0.8, 150);
  WAIT_FOR (get_statistic (self.parent.engine, "draft-loads") == 1);
  for (guint i = 0; i < N_TOGETHER; i++)
    found[i] = begin (&self, i % 2 == 0 ? DRAFT : "lookup", 0.8, 150);
  while (count_unfinished (found) > 0)
    {
      guint64 n_steps = get_statistic (self.parent.engine, "steps");

      make_rows_free (&self.parent);
      trim (&self.parent, "critical");
      n_trims++;
      /* weights that were given back are packed again before there is another step */
      while (get_statistic (self.parent.engine, "steps") == n_steps && count_unfinished (found) > 0)
        g_main_context_iteration (NULL, TRUE);
    }
  g_test_message ("%u trims, %ju guesses right", n_trims, get_statistic (self.parent.engine, "accepted-tokens"));
  for (guint i = 0; i < N_TOGETHER; i++)
    {
      g_assert_no_error (found[i]->error);
      g_assert_cmpstr (found[i]->text, ==, plain->text);
      answer_free (found[i]);
    }
  end (&self);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/engine/drafts/configured", test_configured);
  g_test_add_func ("/engine/drafts/unusable", test_unusable);
  g_test_add_func ("/engine/drafts/pressure", test_pressure);
  g_test_add_func ("/engine/drafts/stop-string", test_stop_string);
  g_test_add_func ("/engine/drafts/cancel", test_cancel);
  g_test_add_func ("/engine/drafts/trims", test_trims);
  return g_test_run ();
}
