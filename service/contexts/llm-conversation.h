/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The content of a context: messages, cut into turns, and the tokens that are
 * settled. A turn is what one call added. The tokens of an answer stay as the
 * model produced them; what was appended since is rendered anew each time until
 * an answer settles it, because some templates merge neighbouring messages.
 * Tokens belong to one model: with another, everything is rendered anew from
 * the messages. Plain data. Main thread.
 */

#pragma once

#include <gio/gio.h>

#include "template/llm-template.h"

G_BEGIN_DECLS

typedef struct
{
  GPtrArray *messages;   /* (element-type LlmStoredMessage) (owned): what this turn added */
  gboolean is_base;      /* what the context was made with: stays on rollback */
  GArray *tokens;        /* (nullable) (element-type gint32): settles all since the last settled
                          * turn */
  char *identity;        /* (nullable): of the model that tokens are for; with LLM_TURN_SHORTENED
                          * behind it where words of the messages are not among them */
  gboolean is_closed;    /* tokens end with the end of an answer */
  guint sub_model;       /* percent of the model that computed its tokens */
  guint sparsity;        /* percent of the layers' weights that the last of them left out; */
  guint n_sparse;        /* so many of them, which are of its answer */
  guint n_w8;            /* so many of the first of them were computed in W8A8: its prompt */
  guint n_tokens;        /* of this turn, an estimate; for turns without tokens */
  guint n_total;         /* of the context up to here, */
  char *counted_by;      /* (nullable): by the model of this identity; NULL: not counted */
  gboolean is_whole;     /* new: its tokens are those of all turns, none of an earlier one counts */
  char *request_id;      /* (nullable) */
  GVariant *results;     /* (nullable): a{sv}, to repeat for the same request-id */
} LlmTurn;

#define LLM_TURN_SHORTENED "+shortened"

/* Of levels, beside percent of the model. */
#define LLM_TURN_SPARSE 128
#define LLM_TURN_W8 256

/* A message as the app gave it. */
typedef struct
{
  char *role;
  char *text;
  GVariant *extras;      /* a{sv} */
} LlmStoredMessage;

typedef struct
{
  GPtrArray *turns;      /* (element-type LlmTurn) (owned) */
  GPtrArray *messages;   /* (element-type LlmStoredMessage) (unowned): of all turns */
  guint dropped;         /* the first turn whose tokens were dropped since this was set to
                          * G_MAXUINT: none */
} LlmConversation;

LlmStoredMessage *llm_stored_message_new  (const char *role,
                                           const char *text,
                                           GVariant   *extras);
LlmTurn          *llm_turn_new            (void);
/* (transfer full) */
LlmTurn          *llm_turn_copy           (const LlmTurn *turn);
void              llm_turn_free           (LlmTurn *turn);
/* Adds copies of `a(ssa{sv})`. */
void              llm_turn_add_messages   (LlmTurn  *turn,
                                           GVariant *messages);
/* Among the results of a turn whose answer a call went on with: u, the bytes of its text from
 * before. Never sent to a caller. */
#define LLM_TURN_CONTINUED "continued-bytes"
/* (nullable): the answer of an answered turn; what the last call has added to it. */
const char       *llm_turn_get_answer     (const LlmTurn *turn);

LlmConversation  *llm_conversation_new      (void);
void              llm_conversation_free     (LlmConversation *self);
/* Whether settled tokens leave out words of messages. */
gboolean          llm_conversation_is_shortened (const LlmConversation *self);
/* Copies all of it. */
LlmConversation  *llm_conversation_copy     (LlmConversation *self);
/* Takes @turn. */
void              llm_conversation_add_turn (LlmConversation *self,
                                             LlmTurn         *turn);
/* (nullable): the turn of that request. */
LlmTurn          *llm_conversation_find_request (LlmConversation *self,
                                                 const char      *request_id);
/* Turns that a rollback may take. */
guint             llm_conversation_get_n_removable (LlmConversation *self);
/* Removes the last @n turns, which must be removable. */
void              llm_conversation_rollback (LlmConversation *self,
                                             guint            n);
/* Keeps the first @n turns, whatever the others are. */
void              llm_conversation_truncate (LlmConversation *self,
                                             guint            n);
/* What the model @identity counts (see llm_conversation_is_counted()), or an estimate. */
guint             llm_conversation_count_tokens (LlmConversation *self,
                                                 const char      *identity);
/* Whether the model @identity has counted all of it. */
gboolean          llm_conversation_is_counted   (LlmConversation *self,
                                                 const char      *identity);
/* Takes what that model has counted. */
void              llm_conversation_set_count    (LlmConversation *self,
                                                 const char      *identity,
                                                 guint            n_tokens);
/* Drops tokens for the model @identity that are not below @n_vocab, and all behind them, which
 * were settled after them: from there on the text is rendered again. FALSE if there were any. */
gboolean          llm_conversation_check_tokens (LlmConversation *self,
                                                 const char      *identity,
                                                 guint            n_vocab);
/* Drops the tokens of turn @first and all behind it. */
void              llm_conversation_drop_tokens  (LlmConversation *self,
                                                 guint            first);
/* Of text and tokens. */
guint64           llm_conversation_get_bytes (LlmConversation *self);

/* The settled tokens for the model @identity (with LLM_TURN_SHORTENED: whole ones or shortened
 * ones) are appended to @tokens, and to @levels (nullable)
 * (element-type guint16) the percent of the model that computed each, or LLM_TURN_SPARSE and a
 * sparsity, and LLM_TURN_W8 for one in W8A8; returns where they end and sets @first_message to the first message they do not cover. Without valid ones:
 * LLM_POINT_START and message 0. */
LlmPoint          llm_conversation_get_settled (LlmConversation *self,
                                                const char      *identity,
                                                GArray          *tokens,
                                                GArray          *levels,
                                                guint           *first_message);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmTurn, llm_turn_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmConversation, llm_conversation_free)

G_END_DECLS
