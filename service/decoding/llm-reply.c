/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-mock"

#include "decoding/llm-reply.h"

#include <string.h>

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
  if (self->end == LLM_REPLY_STOP)
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

const LlmReplyStep *
llm_reply_get_step (const LlmReply *self,
                    guint           index)
{
  if (self == NULL || index >= self->steps->len)
    return NULL;
  return &g_array_index (self->steps, LlmReplyStep, index);
}
