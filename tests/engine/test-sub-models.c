/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls that sub-models answer (E1, E9): the shipped model with a companion of three levels beside
 * it. Which one answers is told, the whole model is what it was, and a turn's tokens are computed
 * again as they were, whatever became of the memory meanwhile. */

#include "engine-rig.h"

#include <math.h>
#include <string.h>

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "model/llm-companion.h"
#include "sched/llm-scheduler.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"

#define MODEL "llmsvc-demo-8M-Q8_0.gguf"
#define COMPANION "llmsvc-demo-8M-Q8_0" LLM_COMPANION_SUFFIX
#define N_LEVELS 3
#define RANK 2
#define PROMPT "I want to find an Italian restaurant in San Jose."

static const guint percent[N_LEVELS] = { 40, 70, 100 };

static void
add_counts (LlmTestGguf *gguf,
            const char  *key,
            const guint *counts,
            gsize        n)
{
  g_autofree gint64 *values = g_new (gint64, n);

  for (gsize i = 0; i < n; i++)
    values[i] = counts[i];
  llm_test_gguf_add_ints (gguf, key, LLM_GGUF_UINT32, values, n);
}

/* Of n_ff channels and all groups of heads; each level has two more parts of the latter, as two
 * heads of 32 are what can be cut. */
static LlmSubModels *
make_table (const LlmHparams *hparams,
            guint            *groups,
            guint            *channels)
{
  const guint8 shares[N_LEVELS] = { 40, 70, 100 };
  g_autoptr(GError) error = NULL;
  LlmSubModels *table;

  for (guint layer = 0; layer < hparams->n_layers; layer++)
    for (guint level = 0; level < N_LEVELS; level++)
      {
        guint at = layer * N_LEVELS + level;
        gboolean is_whole = level + 1 == N_LEVELS;

        groups[at] = is_whole ? hparams->n_kv_heads : 4 + 2 * level;
        channels[at] = is_whole ? hparams->n_ff : 320 + 192 * level;
      }
  table = llm_sub_models_new (hparams, N_LEVELS, shares, groups, channels, &error);
  g_assert_no_error (error);
  return table;
}

static void
add_adapter (LlmTestGguf *gguf,
             const char  *name,
             guint64      n_in,
             guint64      n_out)
{
  const guint64 dims[] = { n_in, n_out };
  g_autofree float *values = g_new (float, n_in * n_out);

  for (gsize i = 0; i < n_in * n_out; i++)
    values[i] = (float) (i * 37 % 101) / 2000 - 0.02f;
  llm_test_gguf_add_tensor (gguf, name, LLK_F16, 2, dims, values);
}

/* What the levels cost, with the adapter of level 40. */
static void
add_shares (LlmTestGguf        *gguf,
            LlmModel           *model,
            const LlmSubModels *table)
{
  const LlmHparams *hparams = llm_model_get_hparams (model);
  const double adapter = RANK * (hparams->n_embd + 320);
  const char *const names[] = { "weights", "operations", "bytes" };
  float shares[3][N_LEVELS];
  LlmSubModelCost whole;
  g_autoptr(GError) error = NULL;

  g_assert_true (llm_sub_models_measure (table, llm_model_get_gguf (model), hparams, N_LEVELS - 1,
                                         &whole, &error));
  for (guint level = 0; level < N_LEVELS; level++)
    {
      double more = level == 0 ? adapter : 0;
      LlmSubModelCost cost;

      g_assert_true (llm_sub_models_measure (table, llm_model_get_gguf (model), hparams, level,
                                             &cost, &error));
      shares[0][level] = (float) (((double) cost.weights + more) / (double) whole.weights);
      shares[1][level] = (float) (((double) cost.operations + more) / (double) whole.operations);
      shares[2][level] = (float) (((double) cost.bytes + 2 * more) / (double) whole.bytes);
    }
  for (guint i = 0; i < 3; i++)
    {
      g_autofree char *key = g_strconcat ("llmsvc.levels.", names[i], NULL);

      llm_test_gguf_add_floats (gguf, key, LLM_GGUF_FLOAT32, shares[i], N_LEVELS);
    }
}

/* @weights: (nullable): the identity of the weights that it is for; NULL for the right one. */
static void
write_companion (const char *folder,
                 const char *weights)
{
  g_autofree char *from = g_build_filename (folder, MODEL, NULL);
  g_autofree char *path = g_build_filename (folder, COMPANION, NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmModel) model = llm_model_open (from, &error);
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = NULL;
  const LlmHparams *hparams;
  g_autoptr(LlmSubModels) table = NULL;
  g_autofree guint *groups = NULL;
  g_autofree guint *channels = NULL;

  g_assert_no_error (error);
  hparams = llm_model_get_hparams (model);
  groups = g_new (guint, hparams->n_layers * N_LEVELS);
  channels = g_new (guint, hparams->n_layers * N_LEVELS);
  table = make_table (hparams, groups, channels);

  llm_test_gguf_add_string (gguf, "general.type", "companion");
  llm_test_gguf_add_string (gguf, "general.architecture", "llama");
  llm_test_gguf_add_int (gguf, "llmsvc.companion.version", LLM_GGUF_UINT32, 1);
  llm_test_gguf_add_string (gguf, "llmsvc.companion.weights",
                            weights != NULL ? weights : llm_model_get_weight_identity (model));
  add_counts (gguf, "llmsvc.levels.percent", percent, N_LEVELS);
  add_counts (gguf, "llmsvc.levels.groups", groups, hparams->n_layers * N_LEVELS);
  add_counts (gguf, "llmsvc.levels.channels", channels, hparams->n_layers * N_LEVELS);
  add_shares (gguf, model, table);
  llm_test_gguf_add_string (gguf, "adapter.type", "lora");
  llm_test_gguf_add_double (gguf, "adapter.lora.alpha", LLM_GGUF_FLOAT32, 4);
  add_adapter (gguf, "level.40.blk.1.ffn_up.weight.lora_a", hparams->n_embd, RANK);
  add_adapter (gguf, "level.40.blk.1.ffn_up.weight.lora_b", RANK, 320);
  bytes = llm_test_gguf_end (gguf);
  g_assert_true (g_file_set_contents (path, g_bytes_get_data (bytes, NULL),
                                      (gssize) g_bytes_get_size (bytes), &error));
}

typedef struct
{
  Fixture fixture;
  char *models;
} Elastic;

static LlmEngine *
start (Elastic *self)
{
  LlmSettings *settings = new_settings (self->fixture.state, 2);

  g_strfreev (settings->model_folders);
  settings->model_folders = g_strdupv ((char *[]) { self->models, NULL });
  /* a text must not depend on what was quantized between two calls */
  settings->context_ratio = 0;
  settings->pace_on_battery = LLM_PACE_WAIT;
  return start_engine_with (settings);
}

/* @data: what is beside the model: a companion, "none", or one of the weights @data. */
static void
set_up_elastic (Elastic       *self,
                gconstpointer  data)
{
  g_autofree char *from = g_build_filename (g_getenv ("LLM_MODEL_DIR"), MODEL, NULL);
  g_autofree char *path = NULL;
  g_autofree char *bytes = NULL;
  gsize length;

  self->models = llm_test_folder_new ();
  path = g_build_filename (self->models, MODEL, NULL);
  g_assert_true (g_file_get_contents (from, &bytes, &length, NULL));
  g_assert_true (g_file_set_contents (path, bytes, (gssize) length, NULL));
  if (g_strcmp0 (data, "none") != 0)
    write_companion (self->models, data);
  self->fixture.state = llm_test_folder_new ();
  self->fixture.engine = start (self);
  self->fixture.caller = llm_caller_new (1000, "org.example.App", ":1.1", LLM_CALLER_HOST);
}

static void
tear_down_elastic (Elastic       *self,
                   gconstpointer  data)
{
  tear_down (&self->fixture, data);
  llm_test_folder_remove (self->models);
  g_free (self->models);
}

static char *
make_options (guint sub_model)
{
  return g_strdup_printf ("{'temperature': <0.0>, 'max-tokens': <uint32 24>, 'logprobs': <uint32 0>, "
                          "'sub-model': <uint32 %u>}", sub_model);
}

/* (transfer full): the text and the log-probabilities of its tokens, in which every bit of K and V
 * tells; @n_reused: (out) (optional). */
static char *
ask_by (Elastic    *self,
        LlmContext *context,
        const char *prompt,
        guint       sub_model,
        guint      *n_reused)
{
  g_autofree char *options = make_options (sub_model);
  g_autoptr(Answer) answer = begin_ask (&self->fixture, context, prompt, options);

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpuint (result_uint (answer, "sub-model"), ==, sub_model);
  if (n_reused != NULL)
    *n_reused = result_uint (answer, "reused-tokens");
  return g_strdup_printf ("%s %s", answer->text, result_string (answer, "logprobs"));
}

/* (transfer full): of a call that takes @asked percent, and must be answered by @wanted. */
static char *
complete_by (Elastic *self,
             guint    asked,
             guint    wanted)
{
  g_autofree char *options = make_options (asked);
  g_autoptr(Answer) answer = begin_complete (&self->fixture, PROMPT, options);

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpuint (result_uint (answer, "sub-model"), ==, wanted);
  return g_strdup (answer->text);
}

static void
test_answers (Elastic       *self,
              gconstpointer  data)
{
  Fixture plain;
  g_autofree char *reference = NULL;
  g_autofree char *whole = complete_by (self, 100, 100);
  g_autofree char *chosen = complete_by (self, 0, 100);
  g_autofree char *small = complete_by (self, 40, 40);
  g_autofree char *smaller = complete_by (self, 1, 40);
  g_autofree char *between = complete_by (self, 41, 70);
  g_auto(GStrv) levels = llm_engine_list_sub_models (
    self->fixture.engine, llm_engine_get_active_model (self->fixture.engine));
  g_autofree char *joined = g_strjoinv (" ", levels);

  set_up_floats (&plain, NULL);
  reference = complete (&plain, PROMPT, GREEDY);
  tear_down (&plain, NULL);

  g_assert_cmpstr (whole, ==, reference);
  g_assert_cmpstr (chosen, ==, reference);
  g_assert_cmpstr (small, !=, whole);
  g_assert_cmpstr (smaller, ==, small);
  g_assert_cmpstr (between, !=, small);
  g_assert_cmpstr (joined, ==, "40 70 100");
}

/* Rows of several levels meet in one step. */
static void
test_together (Elastic       *self,
               gconstpointer  data)
{
  static const guint asked[] = { 40, 100, 70, 40, 100 };
  char *alone[G_N_ELEMENTS (asked)];
  Answer *answers[G_N_ELEMENTS (asked)];

  for (guint i = 0; i < G_N_ELEMENTS (asked); i++)
    alone[i] = complete_by (self, asked[i], asked[i]);
  for (guint i = 0; i < G_N_ELEMENTS (asked); i++)
    {
      g_autofree char *options = make_options (asked[i]);

      answers[i] = begin_complete (&self->fixture, PROMPT, options);
    }
  for (guint i = 0; i < G_N_ELEMENTS (asked); i++)
    {
      WAIT_FOR (answers[i]->is_finished);
      g_assert_no_error (answers[i]->error);
      g_assert_cmpstr (answers[i]->text, ==, alone[i]);
      answer_free (answers[i]);
      g_free (alone[i]);
    }
}

static void
remove_chunks (Elastic *self)
{
  g_autofree char *chunks = g_build_filename (self->fixture.state, "chunks", NULL);

  if (g_file_test (chunks, G_FILE_TEST_IS_DIR))
    llm_test_folder_remove (chunks);
}

/* Turns of several levels in a context called @name; with @restarts the service ends after each,
 * and what it had on storage is gone: all is computed again. Returns the texts. */
static char *
converse (Elastic    *self,
          const char *name,
          gboolean    restarts)
{
  static const guint asked[] = { 40, 100, 40, 70, 100 };
  g_autoptr(GString) texts = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (asked); i++)
    {
      g_autofree char *text = NULL;
      guint n_reused;
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmContext) context =
        open_context (&self->fixture, name, "{'create': <true>}", &error);

      g_assert_no_error (error);
      text = ask_by (self, context, i % 2 == 0 ? PROMPT : "And another one?", asked[i], &n_reused);
      /* what another sub-model computed is used as it is */
      if (i > 0 && !restarts)
        g_assert_cmpuint (n_reused, >, 0);
      g_string_append_printf (texts, "%s\n", text);
      g_clear_object (&context);
      if (restarts)
        {
          stop_engine (&self->fixture.engine);
          if (i % 2 == 0)
            remove_chunks (self);
          self->fixture.engine = start (self);
        }
    }
  return g_string_free (g_steal_pointer (&texts), FALSE);
}

static void
test_turns (Elastic       *self,
            gconstpointer  data)
{
  g_autofree char *at_once = converse (self, "a", FALSE);
  g_autofree char *restarted = converse (self, "b", TRUE);

  g_assert_cmpstr (at_once, ==, restarted);
}

/* Two contexts that begin alike, of two levels: neither takes the other's chunks. */
static void
test_prefix (Elastic       *self,
             gconstpointer  data)
{
  g_autofree char *system = g_strnfill (900, 'a');
  g_autofree char *options = NULL;
  char *texts[2][2];

  for (gsize i = 3; i < strlen (system); i += 4)
    system[i] = ' ';
  options = g_strdup_printf ("{'system': <'%s'>}", system);
  for (guint run = 0; run < 2; run++)
    {
      for (guint i = 0; i < 2; i++)
        {
          guint which = run == 0 ? i : 1 - i;
          g_autoptr(LlmContext) context = create (&self->fixture, options);

          texts[run][which] = ask_by (self, context, PROMPT, which == 0 ? 100 : 40, NULL);
        }
      stop_engine (&self->fixture.engine);
      self->fixture.engine = start (self);
    }
  for (guint i = 0; i < 2; i++)
    g_assert_cmpstr (texts[0][i], ==, texts[1][i]);
  for (guint i = 0; i < 4; i++)
    g_free (texts[i / 2][i % 2]);
}

/* A turn that is taken back, and asked again of another sub-model: nothing of the first answer's
 * computation is used, be it in memory or on storage. */
static void
test_again (Elastic       *self,
            gconstpointer  data)
{
  g_autofree char *long_prompt = g_strnfill (600, 'b');

  for (gsize i = 3; i < strlen (long_prompt); i += 4)
    long_prompt[i] = ' ';
  for (guint restarts = 0; restarts < 2; restarts++)
    {
      g_autofree char *name = g_strdup_printf ("again-%u", restarts);
      g_autoptr(LlmContext) plain = create (&self->fixture, "{}");
      g_autoptr(LlmContext) context =
        open_context (&self->fixture, name, "{'create': <true>}", NULL);
      g_autofree char *small = ask_by (self, context, long_prompt, 40, NULL);
      g_autofree char *whole = NULL;
      g_autofree char *reference = ask_by (self, plain, long_prompt, 100, NULL);

      g_assert_true (rollback (context, 1, NULL));
      if (restarts)
        {
          g_clear_object (&context);
          g_clear_object (&plain);
          stop_engine (&self->fixture.engine);
          self->fixture.engine = start (self);
          context = open_context (&self->fixture, name, "{'create': <true>}", NULL);
        }
      whole = ask_by (self, context, long_prompt, 100, NULL);
      g_assert_cmpstr (small, !=, whole);
      g_assert_cmpstr (whole, ==, reference);
    }
}

/* Without sub-models only a call that names one fails. @data: what is beside the model. */
static void
test_without (Elastic       *self,
              gconstpointer  data)
{
  gboolean is_wrong = g_strcmp0 (data, "none") != 0;
  g_autofree char *whole = complete (&self->fixture, PROMPT, GREEDY);
  g_autofree char *hundred = complete_by (self, 100, 100);
  g_autofree char *options = make_options (40);
  g_autoptr(Answer) answer = begin_complete (&self->fixture, PROMPT, options);

  g_assert_cmpstr (hundred, ==, whole);
  WAIT_FOR (answer->is_finished || answer->error != NULL);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
  g_assert_nonnull (strstr (answer->error->message, "sub-model"));
  g_assert_nonnull (strstr (answer->error->message,
                            is_wrong ? "it is for the weights" : "has no sub-models"));
}

/* --- a level for a target --- */

/* Calls of the background, for which nothing else waits, teach nothing of what steps cost: what is
 * expected of the levels is what the companion says. */
#define QUIET "'temperature': <0.0>, 'max-tokens': <uint32 8>, 'slo': <'background'>"

/* (transfer full) */
static LlmCompanion *
read_companion (const Elastic *self)
{
  g_autofree char *path = g_build_filename (self->models, MODEL, NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmModel) model = llm_model_open (path, &error);
  LlmCompanion *companion;

  g_assert_no_error (error);
  companion = llm_companion_open (model, &error);
  g_assert_no_error (error);
  return companion;
}

/* (transfer full): @options are those of a dictionary, without its braces. */
static Answer *
complete_with (Elastic    *self,
               const char *options)
{
  g_autofree char *dict = g_strdup_printf ("{%s}", options);
  Answer *answer = begin_complete (&self->fixture, PROMPT, dict);

  WAIT_FOR (answer->is_finished || answer->error != NULL);
  return answer;
}

static void
check_level (Elastic    *self,
             guint       wanted,
             const char *options)
{
  g_autoptr(Answer) answer = complete_with (self, options);

  g_assert_no_error (answer->error);
  g_test_message ("%s", options);
  g_assert_cmpuint (result_uint (answer, "sub-model"), ==, wanted);
}

static void
check_part (Elastic    *self,
            guint       wanted,
            const char *key,
            double      part)
{
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  g_autofree char *options =
    g_strdup_printf (QUIET ", '%s': <%s>", key, g_ascii_dtostr (number, sizeof number, part));

  check_level (self, wanted, options);
}

static void
test_parts (Elastic       *self,
            gconstpointer  data)
{
  g_autoptr(LlmCompanion) companion = read_companion (self);
  const LlmSubModelCost *costs = companion->costs;
  double read[N_LEVELS], written[N_LEVELS];

  for (guint level = 0; level < N_LEVELS; level++)
    {
      read[level] = (double) costs[level].operations / (double) costs[N_LEVELS - 1].operations;
      written[level] = (double) costs[level].bytes / (double) costs[N_LEVELS - 1].bytes;
    }
  for (guint level = 0; level + 1 < N_LEVELS; level++)
    {
      check_part (self, percent[level], "ttft-share", (read[level] + read[level + 1]) / 2);
      check_part (self, percent[level], "tpot-share", (written[level] + written[level + 1]) / 2);
      check_part (self, percent[level], "call-share",
                  (MAX (read[level], written[level]) + MIN (read[level + 1], written[level + 1])) / 2);
      /* no allowance */
      check_part (self, percent[level], "ttft-share", read[level + 1] * 0.999);
      check_part (self, percent[level], "tpot-share", written[level + 1] * 0.999);
    }
  check_part (self, 100, "ttft-share", 1);
  check_part (self, 100, "tpot-share", 1);
  check_part (self, 100, "call-share", 1);
  /* the nearest that there is */
  check_part (self, 40, "ttft-share", 0.01);
  check_part (self, 40, "call-share", 0.01);
}

/* Nobody gets less unasked, and none less than it allows. */
static void
test_least (Elastic       *self,
            gconstpointer  data)
{
#define TIGHT ", 'ttft-share': <0.01>, 'tpot-share': <0.01>"
#define SHORT "'temperature': <0.0>, 'max-tokens': <uint32 8>"
  check_level (self, 100, QUIET);
  check_level (self, 100, QUIET ", 'least-sub-model': <uint32 20>");
  check_level (self, 40, QUIET TIGHT);
  check_level (self, 40, QUIET TIGHT ", 'least-sub-model': <uint32 20>");
  check_level (self, 70, QUIET TIGHT ", 'least-sub-model': <uint32 41>");
  check_level (self, 100, QUIET TIGHT ", 'least-sub-model': <uint32 71>");
  check_level (self, 100, QUIET TIGHT ", 'regex': <'[ab]+'>");
  check_level (self, 100, QUIET TIGHT ", 'response-format': <'json'>");
  check_level (self, 40, QUIET TIGHT ", 'regex': <'[ab]+'>, 'least-sub-model': <uint32 40>");
  check_level (self, 70, SHORT TIGHT);
  check_level (self, 40, SHORT TIGHT ", 'least-sub-model': <uint32 40>");
  check_level (self, 100, SHORT TIGHT ", 'slo': <'interactive'>");
  check_level (self, 40, SHORT TIGHT ", 'slo': <'interactive'>, 'least-sub-model': <uint32 40>");
  /* a named sub-model is not replaced */
  check_level (self, 70, QUIET TIGHT ", 'sub-model': <uint32 70>");
  check_level (self, 70, QUIET TIGHT ", 'sub-model': <uint32 70>, 'least-sub-model': <uint32 40>");
}

/* Milliseconds count once it is known what steps cost. The prompt takes more than one of them, and
 * less than a minute. */
static void
test_milliseconds (Elastic       *self,
                   gconstpointer  data)
{
  g_autofree char *prompt = g_strnfill (1200, 'c');
  static const struct
  {
    const char *options;
    guint wanted;
  } cases[] = {
    { QUIET ", 'ttft-ms': <uint32 60000>, 'tpot-ms': <uint32 60000>", 100 },
    { QUIET ", 'ttft-ms': <uint32 1>", 40 },
    { QUIET ", 'ttft-ms': <uint32 1>, 'least-sub-model': <uint32 70>", 70 },
    { QUIET ", 'ttft-ms': <uint32 1>, 'ttft-share': <1.0>", 100 },
  };

  for (gsize i = 3; i < strlen (prompt); i += 4)
    prompt[i] = ' ';
  for (guint i = 0; i < 4; i++)
    check_level (self, 100, SHORT);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *dict = g_strdup_printf ("{%s}", cases[i].options);
      g_autoptr(Answer) answer = begin_complete (&self->fixture, prompt, dict);
      double whole_ms = 0, target_ms = 0;

      WAIT_FOR (answer->is_finished || answer->error != NULL);
      g_assert_no_error (answer->error);
      g_assert_cmpuint (result_uint (answer, "sub-model"), ==, cases[i].wanted);
      if (strstr (cases[i].options, "share") == NULL)
        continue;
      /* what a part is of is told, and there is no allowance */
      g_assert_true (g_variant_lookup (answer->results, "whole-ttft-ms", "d", &whole_ms));
      g_assert_true (g_variant_lookup (answer->results, "ttft-target-ms", "d", &target_ms));
      g_assert_cmpfloat (whole_ms, >, 1);
      g_assert_cmpfloat (target_ms, ==, whole_ms);
    }
}

/* A call that waits so long before its first row that what was chosen would be late is computed by
 * less of the model (E7). The clock stands still, and nothing is learned meanwhile. */
static void
test_replaced (Elastic       *self,
               gconstpointer  data)
{
  g_autoptr(LlmCompanion) companion = read_companion (self);
  double ratio = (double) companion->costs[1].operations
                 / (double) companion->costs[N_LEVELS - 1].operations;
  g_autofree char *prompt = g_strnfill (1200, 'c');
  g_autofree char *options = NULL;
  g_autoptr(Answer) probe = NULL;
  double whole_ms = 0;
  guint target_ms;

  for (gsize i = 3; i < strlen (prompt); i += 4)
    prompt[i] = ' ';
  for (guint i = 0; i < 4; i++)
    check_level (self, 100, SHORT);
  probe = begin_complete (&self->fixture, prompt, "{" QUIET ", 'ttft-share': <1.0>}");
  WAIT_FOR (probe->is_finished);
  g_assert_true (g_variant_lookup (probe->results, "whole-ttft-ms", "d", &whole_ms));
  target_ms = (guint) ceil (4 * whole_ms);
  options = g_strdup_printf ("{" QUIET ", 'ttft-ms': <uint32 %u>}", target_ms);

  for (guint waits = 0; waits < 2; waits++)
    {
      gint64 now_us = g_get_monotonic_time ();
      double left_ms = (ratio + 1) / 2 * whole_ms;
      g_autoptr(Answer) answer = NULL;

      llm_clock_set_for_test (now_us);
      llm_engine_set_power (self->fixture.engine, TRUE, FALSE);
      answer = begin_complete (&self->fixture, prompt, options);
      WAIT_FOR (answer->generation != NULL || answer->error != NULL);
      g_assert_no_error (answer->error);
      if (waits)
        llm_clock_set_for_test (now_us + (gint64) ((target_ms - left_ms) * 1000));
      llm_engine_set_power (self->fixture.engine, FALSE, FALSE);
      WAIT_FOR (answer->is_finished);
      llm_clock_set_for_test (-1);
      g_assert_cmpuint (result_uint (answer, "sub-model"), ==, waits ? 70 : 100);
    }
}

/* What a level was chosen for is the turn's: it is computed again by that. */
static void
test_chosen_turn (Elastic       *self,
                  gconstpointer  data)
{
  char *texts[2];

  for (guint run = 0; run < 2; run++)
    {
      const char *name = run == 0 ? "named" : "chosen";
      g_autoptr(LlmContext) context = open_context (&self->fixture, name, "{'create': <true>}", NULL);
      g_autoptr(Answer) first =
        begin_ask (&self->fixture, context, PROMPT,
                   run == 0 ? "{" QUIET ", 'sub-model': <uint32 40>}" : "{" QUIET TIGHT "}");

      WAIT_FOR (first->is_finished);
      g_assert_no_error (first->error);
      g_assert_cmpuint (result_uint (first, "sub-model"), ==, 40);
      g_clear_object (&context);
      stop_engine (&self->fixture.engine);
      remove_chunks (self);
      self->fixture.engine = start (self);
      context = open_context (&self->fixture, name, "{}", NULL);
      texts[run] = ask_by (self, context, "And another one?", 100, NULL);
    }
  g_assert_cmpstr (texts[0], ==, texts[1]);
  for (guint run = 0; run < 2; run++)
    g_free (texts[run]);
}

static void
test_contradiction (Elastic       *self,
                    gconstpointer  data)
{
  g_autoptr(Answer) answer =
    complete_with (self, QUIET ", 'sub-model': <uint32 40>, 'least-sub-model': <uint32 70>");

  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
  g_assert_nonnull (strstr (answer->error->message, "least-sub-model 70"));
}

/* Without sub-models a target is a target and nothing fails. */
static void
test_parts_without (Elastic       *self,
                    gconstpointer  data)
{
  check_level (self, 100, QUIET TIGHT ", 'call-share': <0.5>, 'least-sub-model': <uint32 20>");
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

#define ADD(name, data, func) \
  g_test_add ("/sub-models/" name, Elastic, data, set_up_elastic, func, tear_down_elastic)
  ADD ("answers", NULL, test_answers);
  ADD ("together", NULL, test_together);
  ADD ("turns", NULL, test_turns);
  ADD ("prefix", NULL, test_prefix);
  ADD ("again", NULL, test_again);
  ADD ("parts", NULL, test_parts);
  ADD ("least", NULL, test_least);
  ADD ("milliseconds", NULL, test_milliseconds);
  ADD ("replaced", NULL, test_replaced);
  ADD ("chosen-turn", NULL, test_chosen_turn);
  ADD ("contradiction", NULL, test_contradiction);
  ADD ("parts-without", "none", test_parts_without);
  ADD ("none", "none", test_without);
  ADD ("other-weights", "0123456789abcdef", test_without);

  return g_test_run ();
}
