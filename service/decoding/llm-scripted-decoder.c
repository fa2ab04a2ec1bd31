/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-mock"

#include "decoding/llm-scripted-decoder.h"

#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"

static void
add_piece (LlmReply     *self,
           LlmTokenizer *tokenizer,
           const char   *text,
           guint         delay_ms)
{
  g_autoptr(GArray) tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmTextPart part = { text, strlen (text), FALSE };

  llm_tokenizer_encode (tokenizer, &part, 1, FALSE, tokens);
  for (guint i = 0; i < tokens->len; i++)
    {
      LlmReplyStep step = {
        .token = g_array_index (tokens, gint32, i),
        .delay_ms = i == 0 ? delay_ms : 0,
        .ends_piece = i + 1 == tokens->len,
      };

      g_array_append_val (self->steps, step);
    }
}

LlmReply *
llm_reply_new (LlmTokenizer      *tokenizer,
               const char *const *pieces,
               guint              delay_ms,
               guint              piece_delay_ms,
               LlmReplyEnd        end,
               const GError      *error,
               LlmReplyExit       exit)
{
  LlmReply *self = g_new0 (LlmReply, 1);
  guint pending_ms = delay_ms;

  self->steps = g_array_new (FALSE, FALSE, sizeof (LlmReplyStep));
  self->end = end;
  self->error = error != NULL ? g_error_copy (error) : NULL;
  self->exit = exit;
  for (guint i = 0; pieces[i] != NULL; i++)
    {
      if (i > 0)
        pending_ms += piece_delay_ms;
      if (*pieces[i] != '\0')
        {
          add_piece (self, tokenizer, pieces[i], pending_ms);
          pending_ms = 0;
        }
    }

  if (self->steps->len == 0 && end != LLM_REPLY_ERROR)
    self->end = LLM_REPLY_STOP;
  if (self->end == LLM_REPLY_STOP && exit != LLM_REPLY_EXIT_BEFORE_KEEP)
    {
      LlmReplyStep step = { tokenizer->eos, pending_ms, TRUE };

      g_array_append_val (self->steps, step);
    }
  return self;
}

void
llm_reply_free (LlmReply *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->steps);
  g_clear_error (&self->error);
  g_free (self);
}

/* --- the decoder --- */

typedef struct
{
  LlmDecoder parent;
  LlmReply *reply;       /* (owned) */
  guint n_consumed;
  GSourceFunc exit;      /* (nullable): NULL once it was called */
  gpointer data;
} ScriptedDecoder;

static const LlmReplyStep *
get_step (const ScriptedDecoder *self,
          guint                  index)
{
  return index < self->reply->steps->len
           ? &g_array_index (self->reply->steps, LlmReplyStep, index)
           : NULL;
}

static void
begin (LlmDecoder   *decoder,
       const gint32 *prompt,
       guint         n_prompt)
{
}

static void
propose (LlmDecoder   *decoder,
         LlmDraftTree *tree)
{
  ScriptedDecoder *self = (ScriptedDecoder *) decoder;

  llm_draft_tree_begin (tree, get_step (self, self->n_consumed - 1)->token);
}

static gint32
consume (LlmDecoder  *decoder,
         const float *logits,
         GError     **error)
{
  ScriptedDecoder *self = (ScriptedDecoder *) decoder;
  const LlmReplyStep *step = get_step (self, self->n_consumed);

  if (step == NULL)
    {
      if (self->reply->error != NULL)
        g_propagate_error (error, g_error_copy (self->reply->error));
      else
        llm_fail (error, LLMSVC_ERROR_FAILED, "The script has no more text for this answer");
      return -1;
    }
  self->n_consumed++;
  return step->token;
}

static gint64
get_delay (LlmDecoder *decoder)
{
  ScriptedDecoder *self = (ScriptedDecoder *) decoder;
  const LlmReplyStep *step = get_step (self, self->n_consumed);

  if (step != NULL)
    return (gint64) step->delay_ms * 1000;
  if (self->reply->exit != LLM_REPLY_EXIT_BEFORE_KEEP)
    return 0;
  if (self->exit != NULL)
    g_idle_add_full (G_PRIORITY_LOW, self->exit, self->data, NULL);
  self->exit = NULL;
  return G_MAXINT64;
}

static gboolean
holds_text (LlmDecoder *decoder)
{
  ScriptedDecoder *self = (ScriptedDecoder *) decoder;

  return self->n_consumed > 0 && !get_step (self, self->n_consumed - 1)->ends_piece;
}

static void
scripted_free (LlmDecoder *decoder)
{
  llm_reply_free (((ScriptedDecoder *) decoder)->reply);
  g_free (decoder);
}

LlmDecoder *
llm_decoder_new_scripted (LlmReply   *reply,
                          GSourceFunc exit,
                          gpointer    data)
{
  static const LlmDecoderClass class = {
    .begin = begin,
    .propose = propose,
    .consume = consume,
    .get_delay = get_delay,
    .holds_text = holds_text,
    .free = scripted_free,
  };
  ScriptedDecoder *self = g_new0 (ScriptedDecoder, 1);

  self->parent = (LlmDecoder) { .class = &class, .n_rows = 1 };
  self->reply = reply;
  self->exit = exit;
  self->data = data;
  return &self->parent;
}
