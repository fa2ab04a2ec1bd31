/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "storm/bench-storm-plan.h"

#include <sys/stat.h>

#include "bench-random.h"
#include "model/llm-model.h"

#define MIB ((guint64) 1 << 20)

/* What a server has beside weights and contexts: code, heap, scratch, what its disk cache must
 * have for a moment. */
#define BESIDE (64 * MIB)
/* The limit is that and so many halves of the model's size: the model, its contexts, and a
 * program of the size of a browser's tab. */
#define LIMIT_HALVES 4
/* What the eater leaves to the server, in quarters of the model: the weights and less than its
 * contexts; three quarters of the weights; half of them. */
static const guint left_quarters[BENCH_STORM_LEVELS] = { 5, 3, 2 };
#define FILE_PART 16

#define GROW_MS 2000
#define HOLD_MS 5000
#define PAUSE_MS 13000

/* Of what the model can see, and not more than MAX_CTX: the first message takes three eighths,
 * contexts grow to seven. */
#define MAX_CTX 4096
#define N_TURN 16
#define N_ANSWER 32
/* A turn with what the template puts around it. */
#define N_WHOLE_TURN 72

static const char *const words[] = {
  "we", "go", "to", "the", "sea", "and", "see", "it", "as", "one", "is", "no", "in", "at", "on",
  "so", "he", "or", "if", "an", "ox", "by", "up", "us", "do", "me", "my", "be", "am", "of",
};

static void
text_free (BenchStormText *self)
{
  if (self == NULL)
    return;
  g_free (self->text);
  g_array_unref (self->ids);
  g_free (self);
}

/* Words until the text has @n_tokens. */
static BenchStormText *
make_text (LlmTokenizer *tokenizer,
           BenchRandom  *random,
           guint         n_tokens)
{
  BenchStormText *self = g_new (BenchStormText, 1);
  GString *text = g_string_new (NULL);

  self->ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  while (self->ids->len < n_tokens)
    {
      guint n_words = MAX (1, (n_tokens - self->ids->len) / 4);
      LlmTextPart part;

      for (guint i = 0; i < n_words; i++)
        {
          guint word = bench_random_range (random, 0, G_N_ELEMENTS (words) - 1);

          g_string_append_printf (text, "%s%s", text->len > 0 ? " " : "", words[word]);
        }
      part = (LlmTextPart) { text->str, text->len, FALSE };
      g_array_set_size (self->ids, 0);
      llm_tokenizer_encode (tokenizer, &part, 1, FALSE, self->ids);
    }
  self->text = g_string_free (text, FALSE);
  return self;
}

static void
make_texts (BenchStormPlan *self,
            LlmTokenizer   *tokenizer,
            guint64         seed)
{
  BenchRandom random = bench_random_derive (seed, 1);

  self->begins = g_ptr_array_new_with_free_func ((GDestroyNotify) text_free);
  self->turns = g_ptr_array_new_with_free_func ((GDestroyNotify) text_free);
  for (guint app = 0; app < BENCH_STORM_APPS; app++)
    {
      g_ptr_array_add (self->begins, make_text (tokenizer, &random, self->n_begin));
      for (guint turn = 0; turn < self->n_turns; turn++)
        g_ptr_array_add (self->turns, make_text (tokenizer, &random, self->n_turn));
    }
  self->filler = make_text (tokenizer, &random, self->n_answer);
}

/* Each level as often as the others, in any order. */
static void
make_order (BenchStormPlan *self,
            guint64         seed)
{
  BenchRandom random = bench_random_derive (seed, 2);

  self->order = g_malloc (self->n_storms);
  for (guint i = 0; i < self->n_storms; i++)
    self->order[i] = (guint8) (i % BENCH_STORM_LEVELS);
  for (guint i = self->n_storms - 1; i > 0; i--)
    {
      guint other = bench_random_range (&random, 0, i);
      guint8 level = self->order[i];

      self->order[i] = self->order[other];
      self->order[other] = level;
    }
}

BenchStormPlan *
bench_storm_plan_new (const char  *model,
                      guint        n_storms,
                      guint64      seed,
                      GError     **error)
{
  g_autoptr(LlmModel) opened = llm_model_open (model, error);
  g_autoptr(BenchStormPlan) self = NULL;
  struct stat status;
  guint64 rest;

  if (opened == NULL)
    return NULL;
  if (stat (model, &status) < 0)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s can't be read", model);
      return NULL;
    }
  self = g_new0 (BenchStormPlan, 1);
  self->model_bytes = (guint64) status.st_size;
  self->limit = BESIDE + LIMIT_HALVES * self->model_bytes / 2;
  self->budget = 2 * self->limit;
  self->file_bytes = self->model_bytes / FILE_PART;
  for (guint i = 0; i < BENCH_STORM_LEVELS; i++)
    {
      rest = BESIDE + self->file_bytes + left_quarters[i] * self->model_bytes / 4;
      self->levels[i] = self->limit - rest;
    }
  self->grow_ms = GROW_MS;
  self->hold_ms = HOLD_MS;
  self->pause_ms = PAUSE_MS;
  self->n_storms = n_storms;

  self->n_ctx = MIN (MAX_CTX, llm_model_get_hparams (opened)->n_ctx);
  self->n_begin = self->n_ctx * 3 / 8;
  self->n_turn = N_TURN;
  self->n_answer = N_ANSWER;
  self->n_turns = MAX (1, self->n_ctx / 2 / N_WHOLE_TURN);
  self->eos = llm_model_get_tokenizer (opened)->eos;
  make_texts (self, llm_model_get_tokenizer (opened), seed);
  make_order (self, seed);
  return g_steal_pointer (&self);
}

void
bench_storm_plan_free (BenchStormPlan *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->begins, g_ptr_array_unref);
  g_clear_pointer (&self->turns, g_ptr_array_unref);
  text_free (self->filler);
  g_free (self->order);
  g_free (self);
}

guint64
bench_storm_plan_get_level (const BenchStormPlan *self,
                            guint                 storm)
{
  return self->levels[self->order[storm % self->n_storms]];
}

guint
bench_storm_plan_get_place (const BenchStormPlan *self,
                            guint                 turn)
{
  return turn == 0 ? 0 : 1 + (turn - 1) % self->n_turns;
}

const BenchStormText *
bench_storm_plan_get_text (const BenchStormPlan *self,
                           guint                 app,
                           guint                 place)
{
  if (place == 0)
    return g_ptr_array_index (self->begins, app);
  return g_ptr_array_index (self->turns, app * self->n_turns + place - 1);
}
