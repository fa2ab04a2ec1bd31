/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool/llm-own-text.h"

#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "decoding/llm-sampler.h"

/* Windows that are drawn together: a step reads all weights. */
#define N_TOGETHER 16
/* Of tokens at the beginning that may be drawn. */
#define MAX_TRIES 1000
/* Improbable tokens lead nowhere. */
#define TOP_P 0.95f

typedef struct
{
  LlmKvSeq *seq;           /* (owned) */
  LlmSampler *sampler;     /* (owned) */
  gint32 *tokens;          /* (unowned) [n_ctx] */
  guint n_given;           /* at its beginning; the others are chosen */
} Window;

static gint32
draw_first (const LlmOwnText *self,
            GRand            *random)
{
  gint32 token = 0;

  for (guint i = 0; i < MAX_TRIES; i++)
    {
      token = g_rand_int_range (random, 0, (gint32) self->hparams->n_vocab);
      if (!llm_tokenizer_is_control (self->tokenizer, token))
        break;
    }
  return token;
}

/* The row of token @at of each window. */
static gboolean
run_step (const LlmOwnText *self,
          Window           *windows,
          guint             n,
          guint             at,
          GError          **error)
{
  LlmKvSeq *sequences[N_TOGETHER];
  LlmRow rows[N_TOGETHER];
  const LlmBatch batch = { rows, n, sequences, n };
  LlmStatus status;

  for (guint i = 0; i < n; i++)
    {
      sequences[i] = windows[i].seq;
      if (!llm_kv_seq_append (windows[i].seq, 1, error))
        return FALSE;
      rows[i] = (LlmRow) {
        .token = windows[i].tokens[at], .position = at, .sequence = i, .slot = at,
        .sub_model = llm_forward_get_sub_model (self->forward), .wants_logits = TRUE,
      };
    }
  if (!llm_forward_begin (self->forward, &batch, error))
    return FALSE;
  while ((status = llm_forward_resume (self->forward, error)) == LLM_PENDING)
    g_thread_yield ();
  return status == LLM_READY;
}

/* Chooses token @at + 1 of each, unless it is given. */
static gboolean
choose (const LlmOwnText *self,
        Window           *windows,
        guint             n,
        guint             at,
        GError          **error)
{
  for (guint i = 0; i < n; i++)
    {
      gint32 token;

      if (at + 1 < windows[i].n_given)
        continue;
      token = llm_sampler_sample (windows[i].sampler, llm_forward_get_logits (self->forward, i));
      if (token < 0)
        return llm_fail (error, LLMSVC_ERROR_INVALID_MODEL,
                         "The model gives no token a probability: its weights are damaged");
      windows[i].tokens[at + 1] = token;
    }
  return TRUE;
}

static gboolean
draw_together (const LlmOwnText *self,
               Window           *windows,
               guint             n,
               guint             n_before,
               void            (*on_tokens) (guint n),
               GError          **error)
{
  for (guint at = 0; at + 1 < self->n_ctx; at++)
    {
      if (!run_step (self, windows, n, at, error)
          || !choose (self, windows, n, at, error))
        return FALSE;
      if (on_tokens != NULL)
        on_tokens (n_before + (at + 2) * n);
    }
  return TRUE;
}

static gboolean
begin (const LlmOwnText *self,
       Window           *window,
       guint             number,
       gint32           *tokens,
       GError          **error)
{
  g_autoptr(GRand) random = g_rand_new_with_seed (number);
  const LlmSamplerConfig config = {
    .temperature = 1, .top_p = TOP_P, .repeat_penalty = 1, .seed = number,
  };
  LlmKvPlan plan;
  guint n_given = 0;

  if (self->beginning != NULL && number % 2 == 1)
    {
      n_given = self->beginning->len;
      memcpy (tokens, self->beginning->data, n_given * sizeof *tokens);
    }
  else
    {
      if (self->tokenizer->adds_bos)
        tokens[n_given++] = self->tokenizer->bos;
      tokens[n_given++] = draw_first (self, random);
    }
  *window = (Window) {
    llm_kv_seq_new (self->store, NULL, NULL), llm_sampler_new (&config, self->hparams->n_vocab),
    tokens, n_given,
  };
  return llm_kv_seq_begin_call (window->seq, self->n_ctx, &plan, error);
}

static void
end (const LlmOwnText *self,
     Window           *window)
{
  if (window->seq == NULL)
    return;
  llm_kv_seq_end_call (window->seq, window->tokens, window->seq->length);
  llm_kv_seq_free (window->seq);
  llm_sampler_free (window->sampler);
}

GArray *
llm_own_text_draw (const LlmOwnText  *self,
                   void             (*on_tokens) (guint n),
                   GError           **error)
{
  g_autoptr(GArray) tokens = g_array_new (FALSE, TRUE, sizeof (gint32));
  gboolean is_drawn = TRUE;

  g_array_set_size (tokens, self->n_windows * self->n_ctx);
  for (guint first = 0; is_drawn && first < self->n_windows; first += N_TOGETHER)
    {
      Window windows[N_TOGETHER] = { 0 };
      guint n = MIN (N_TOGETHER, self->n_windows - first);

      for (guint i = 0; is_drawn && i < n; i++)
        is_drawn = begin (self, &windows[i], first + i,
                          &g_array_index (tokens, gint32, (first + i) * self->n_ctx), error);
      is_drawn = is_drawn
                 && draw_together (self, windows, n, first * self->n_ctx, on_tokens, error);
      for (guint i = 0; i < n; i++)
        end (self, &windows[i]);
    }
  return is_drawn ? g_steal_pointer (&tokens) : NULL;
}
