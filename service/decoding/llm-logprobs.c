/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/llm-logprobs.h"

#include <math.h>
#include <string.h>

#include "common/llmsvc-json.h"
#include "common/llmsvc-option-table.h"

static double
read_logit (const float *logits,
            guint        i)
{
  return isnan (logits[i]) ? -INFINITY : logits[i];
}

/* What is taken off a logit, one after the other: together they may have too many digits. */
typedef struct
{
  double max;
  double log_sum;       /* ln of the sum of all exp (logit - max) */
} Softmax;

static Softmax
read_softmax (const float *logits,
              guint        n)
{
  Softmax self = { -INFINITY, 0 };
  double sum = 0;

  for (guint i = 0; i < n; i++)
    self.max = MAX (self.max, read_logit (logits, i));
  for (guint i = 0; i < n; i++)
    sum += exp (read_logit (logits, i) - self.max);
  self.log_sum = log (sum);
  return self;
}

static double
compute_logprob (const Softmax *self,
                 const float   *logits,
                 guint          i)
{
  return read_logit (logits, i) - self->max - self->log_sum;
}

/* The ids of the largest; returns how many there are: fewer where others are impossible. */
static guint
find_top (const float *logits,
          guint        n,
          guint        n_top,
          guint       *top)
{
  guint n_found = 0;

  for (guint i = 0; i < n && n_top > 0; i++)
    {
      double logit = read_logit (logits, i);
      guint at = n_found;

      if (isinf (logit) || (n_found == n_top && logit <= read_logit (logits, top[n_top - 1])))
        continue;
      while (at > 0 && logit > read_logit (logits, top[at - 1]))
        at--;
      n_found = MIN (n_found + 1, n_top);
      memmove (top + at + 1, top + at, (n_found - 1 - at) * sizeof *top);
      top[at] = i;
    }
  return n_found;
}

static void
append_token (GString      *items,
              LlmTokenizer *tokenizer,
              gint32        token,
              double        logprob)
{
  g_autoptr(GString) bytes = g_string_new (NULL);
  g_autofree char *text = NULL;
  char number[G_ASCII_DTOSTR_BUF_SIZE];

  llm_tokenizer_decode_token (tokenizer, token, TRUE, bytes);
  text = g_utf8_make_valid (bytes->str, (gssize) bytes->len);
  g_string_append_printf (items, "{\"id\":%d,\"token\":\"", token);
  llmsvc_json_append_escaped (items, text, strlen (text));
  g_string_append (items, "\",\"bytes\":[");
  for (gsize i = 0; i < bytes->len; i++)
    g_string_append_printf (items, "%s%u", i > 0 ? "," : "", (guint8) bytes->str[i]);
  g_ascii_formatd (number, sizeof number, "%.9g",
                   isfinite (logprob) ? logprob : LLM_LOGPROB_NEVER);
  g_string_append_printf (items, "],\"logprob\":%s", number);
}

void
llm_logprobs_append (GString      *items,
                     LlmTokenizer *tokenizer,
                     const float  *logits,
                     gint32        token,
                     guint         n_top)
{
  guint n = tokenizer->n_tokens;
  Softmax softmax = read_softmax (logits, n);
  guint top[LLMSVC_MAX_LOGPROBS];

  n_top = find_top (logits, n, MIN (n_top, G_N_ELEMENTS (top)), top);
  if (items->len > 0)
    g_string_append_c (items, ',');
  append_token (items, tokenizer, token, compute_logprob (&softmax, logits, (guint) token));
  g_string_append (items, ",\"top_logprobs\":[");
  for (guint i = 0; i < n_top; i++)
    {
      if (i > 0)
        g_string_append_c (items, ',');
      append_token (items, tokenizer, (gint32) top[i],
                    compute_logprob (&softmax, logits, top[i]));
      g_string_append_c (items, '}');
    }
  g_string_append (items, "]}");
}
