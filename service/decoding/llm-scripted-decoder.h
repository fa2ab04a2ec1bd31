/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An answer that was written before (the mock), and the decoder that says it: its tokens, and when
 * they come. A reply is immutable once made. Any thread.
 */

#pragma once

#include <gio/gio.h>

#include "decoding/llm-decoder.h"
#include "tokenizer/llm-tokenizer.h"

G_BEGIN_DECLS

typedef struct
{
  gint32 token;
  guint delay_ms;        /* to wait before it */
  gboolean ends_piece;   /* text is sent up to here, not token by token */
} LlmReplyStep;

typedef enum
{
  LLM_REPLY_STOP,          /* the last step is the token that ends an answer */
  LLM_REPLY_LENGTH,        /* as if max-tokens had been this many */
  LLM_REPLY_CONTEXT_FULL,  /* as if the context had room for this many */
  LLM_REPLY_ERROR,         /* see the error */
} LlmReplyEnd;

/* Where the service is to go away, as if it had crashed. */
typedef enum
{
  LLM_REPLY_STAY,
  LLM_REPLY_EXIT_BEFORE_KEEP,  /* all text was sent, the turn was not kept */
  LLM_REPLY_EXIT_AFTER_KEEP,   /* the turn was kept, its end was not told */
} LlmReplyExit;

typedef struct
{
  GArray *steps;         /* (element-type LlmReplyStep) */
  LlmReplyEnd end;
  GError *error;         /* (nullable): of LLM_REPLY_ERROR, behind the last step */
  LlmReplyExit exit;
} LlmReply;

/* Without text it ends with LLM_REPLY_STOP, whatever @end says, but for
 * LLM_REPLY_ERROR. @pieces: the text as it is to arrive; an empty piece only makes
 * what follows later. @error: copied. */
LlmReply           *llm_reply_new      (LlmTokenizer      *tokenizer,
                                        const char *const *pieces,
                                        guint              delay_ms,
                                        guint              piece_delay_ms,
                                        LlmReplyEnd        end,
                                        const GError      *error,
                                        LlmReplyExit       exit);
void                llm_reply_free     (LlmReply          *self);

/* Says @reply (transfer full), whatever the logits are; it needs rows all the same, as the answer
 * is part of the context. With LLM_REPLY_EXIT_BEFORE_KEEP the answer never ends: @exit is called
 * on the main thread once all of it was said, behind everything that was posted there before. */
LlmDecoder         *llm_decoder_new_scripted (LlmReply      *reply,
                                        GSourceFunc        exit,
                                        gpointer           data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmReply, llm_reply_free)

G_END_DECLS
