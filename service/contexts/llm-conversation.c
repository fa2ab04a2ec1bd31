/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/llm-conversation.h"

#include <string.h>

static void
stored_message_free (LlmStoredMessage *message)
{
  g_free (message->role);
  g_free (message->text);
  g_variant_unref (message->extras);
  g_free (message);
}

LlmStoredMessage *
llm_stored_message_new (const char *role,
                        const char *text,
                        GVariant   *extras)
{
  LlmStoredMessage *message = g_new (LlmStoredMessage, 1);

  message->role = g_strdup (role);
  message->text = g_strdup (text);
  message->extras = g_variant_ref_sink (extras != NULL ? extras : g_variant_new ("a{sv}", NULL));
  return message;
}

LlmTurn *
llm_turn_new (void)
{
  LlmTurn *turn = g_new0 (LlmTurn, 1);

  turn->messages = g_ptr_array_new_with_free_func ((GDestroyNotify) stored_message_free);
  turn->sub_model = 100;
  return turn;
}

void
llm_turn_free (LlmTurn *turn)
{
  g_ptr_array_unref (turn->messages);
  g_clear_pointer (&turn->tokens, g_array_unref);
  g_clear_pointer (&turn->results, g_variant_unref);
  g_free (turn->identity);
  g_free (turn->counted_by);
  g_free (turn->request_id);
  g_free (turn);
}

static gpointer
copy_message (gconstpointer data,
              gpointer      user_data)
{
  const LlmStoredMessage *message = data;

  return llm_stored_message_new (message->role, message->text, message->extras);
}

LlmTurn *
llm_turn_copy (const LlmTurn *turn)
{
  LlmTurn *copy = g_new (LlmTurn, 1);

  *copy = *turn;
  copy->messages = g_ptr_array_copy (turn->messages, copy_message, NULL);
  copy->tokens = turn->tokens != NULL ? g_array_copy (turn->tokens) : NULL;
  copy->identity = g_strdup (turn->identity);
  copy->counted_by = g_strdup (turn->counted_by);
  copy->request_id = g_strdup (turn->request_id);
  copy->results = turn->results != NULL ? g_variant_ref (turn->results) : NULL;
  return copy;
}

void
llm_turn_add_messages (LlmTurn  *turn,
                       GVariant *messages)
{
  GVariantIter iter;
  const char *role;
  const char *text;
  GVariant *extras;

  g_variant_iter_init (&iter, messages);
  while (g_variant_iter_loop (&iter, "(&s&s@a{sv})", &role, &text, &extras))
    g_ptr_array_add (turn->messages, llm_stored_message_new (role, text, extras));
}

const char *
llm_turn_get_answer (const LlmTurn *turn)
{
  const LlmStoredMessage *last;
  guint32 n_bytes = 0;

  if (turn->results == NULL || turn->messages->len == 0)
    return NULL;
  last = g_ptr_array_index (turn->messages, turn->messages->len - 1);
  g_variant_lookup (turn->results, LLM_TURN_CONTINUED, "u", &n_bytes);
  return g_str_equal (last->role, "assistant") && n_bytes <= strlen (last->text)
           ? last->text + n_bytes
           : NULL;
}

LlmConversation *
llm_conversation_new (void)
{
  LlmConversation *self = g_new0 (LlmConversation, 1);

  self->turns = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_turn_free);
  self->messages = g_ptr_array_new ();
  self->dropped = G_MAXUINT;
  return self;
}

void
llm_conversation_free (LlmConversation *self)
{
  g_ptr_array_unref (self->messages);
  g_ptr_array_unref (self->turns);
  g_free (self);
}

LlmConversation *
llm_conversation_copy (LlmConversation *self)
{
  LlmConversation *copy = llm_conversation_new ();

  for (guint i = 0; i < self->turns->len; i++)
    llm_conversation_add_turn (copy, llm_turn_copy (g_ptr_array_index (self->turns, i)));
  return copy;
}

/* NULL without one. */
static LlmTurn *
get_last (const LlmConversation *self)
{
  return self->turns->len > 0 ? g_ptr_array_index (self->turns, self->turns->len - 1) : NULL;
}

/* Whether the tokens of @turn count for @identity: a shortened prompt may begin with whole turns. */
static gboolean
is_valid_for (const LlmTurn *turn,
              const char    *identity)
{
  gsize length = turn->identity != NULL ? strlen (turn->identity) : 0;

  return g_strcmp0 (turn->identity, identity) == 0
         || (turn->identity != NULL && identity != NULL
             && strncmp (identity, turn->identity, length) == 0
             && g_str_equal (identity + length, LLM_TURN_SHORTENED));
}

gboolean
llm_conversation_is_shortened (const LlmConversation *self)
{
  for (guint i = 0; i < self->turns->len; i++)
    {
      const LlmTurn *turn = g_ptr_array_index (self->turns, i);

      if (turn->tokens != NULL && g_str_has_suffix (turn->identity, LLM_TURN_SHORTENED))
        return TRUE;
    }
  return FALSE;
}

/* Index after the last turn with settled tokens; 0 without one, or when one is for another model,
 * because later tokens were generated after it. */
static guint
find_settled_end (LlmConversation *self,
                  const char      *identity)
{
  guint end = 0;

  for (guint i = 0; i < self->turns->len; i++)
    {
      LlmTurn *turn = g_ptr_array_index (self->turns, i);

      if (turn->tokens == NULL)
        continue;
      if (!is_valid_for (turn, identity))
        return 0;
      end = i + 1;
    }
  return end;
}

void
llm_conversation_add_turn (LlmConversation *self,
                           LlmTurn         *turn)
{
  if (turn->is_whole)
    {
      llm_conversation_drop_tokens (self, 0);
      self->dropped = G_MAXUINT;
    }
  turn->is_whole = FALSE;
  g_ptr_array_add (self->turns, turn);
  for (guint i = 0; i < turn->messages->len; i++)
    g_ptr_array_add (self->messages, g_ptr_array_index (turn->messages, i));
  /* Settled tokens count themselves, where all before them are of the same model. */
  if (turn->tokens != NULL && turn->counted_by == NULL
      && find_settled_end (self, turn->identity) > 0)
    llm_conversation_set_count (self, turn->identity,
                                llm_conversation_count_tokens (self, turn->identity));
}

LlmTurn *
llm_conversation_find_request (LlmConversation *self,
                               const char      *request_id)
{
  for (guint i = self->turns->len; i-- > 0;)
    {
      LlmTurn *turn = g_ptr_array_index (self->turns, i);

      if (g_strcmp0 (turn->request_id, request_id) == 0)
        return turn;
    }
  return NULL;
}

guint
llm_conversation_get_n_removable (LlmConversation *self)
{
  LlmTurn *first = self->turns->len > 0 ? g_ptr_array_index (self->turns, 0) : NULL;

  return self->turns->len - (first != NULL && first->is_base ? 1 : 0);
}

void
llm_conversation_rollback (LlmConversation *self,
                           guint            n)
{
  g_assert (n <= llm_conversation_get_n_removable (self));

  llm_conversation_truncate (self, self->turns->len - n);
}

void
llm_conversation_truncate (LlmConversation *self,
                           guint            n)
{
  while (self->turns->len > n)
    {
      g_ptr_array_set_size (self->messages, self->messages->len - get_last (self)->messages->len);
      g_ptr_array_set_size (self->turns, self->turns->len - 1);
    }
}

guint64
llm_conversation_get_bytes (LlmConversation *self)
{
  guint64 bytes = 0;

  for (guint i = 0; i < self->turns->len; i++)
    {
      const LlmTurn *turn = g_ptr_array_index (self->turns, i);

      bytes += turn->tokens != NULL ? turn->tokens->len * sizeof (gint32) : 0;
    }
  for (guint i = 0; i < self->messages->len; i++)
    {
      const LlmStoredMessage *message = g_ptr_array_index (self->messages, i);

      bytes += strlen (message->text) + g_variant_get_size (message->extras);
    }
  return bytes;
}

gboolean
llm_conversation_is_counted (LlmConversation *self,
                             const char      *identity)
{
  const LlmTurn *last = get_last (self);

  return last == NULL || (identity != NULL && g_strcmp0 (last->counted_by, identity) == 0);
}

void
llm_conversation_set_count (LlmConversation *self,
                            const char      *identity,
                            guint            n_tokens)
{
  LlmTurn *last = get_last (self);

  last->n_total = n_tokens;
  g_free (last->counted_by);
  last->counted_by = g_strdup (identity);
}

void
llm_conversation_drop_tokens (LlmConversation *self,
                              guint            first)
{
  for (guint i = first; i < self->turns->len; i++)
    {
      LlmTurn *turn = g_ptr_array_index (self->turns, i);

      g_clear_pointer (&turn->tokens, g_array_unref);
      g_clear_pointer (&turn->identity, g_free);
      g_clear_pointer (&turn->counted_by, g_free);
      turn->is_closed = FALSE;
      turn->sub_model = 100;
      turn->sparsity = turn->n_sparse = turn->n_w8 = 0;
    }
  self->dropped = MIN (self->dropped, first);
}

gboolean
llm_conversation_check_tokens (LlmConversation *self,
                               const char      *identity,
                               guint            n_vocab)
{
  for (guint i = 0; i < self->turns->len; i++)
    {
      const LlmTurn *turn = g_ptr_array_index (self->turns, i);

      if (turn->tokens == NULL || !is_valid_for (turn, identity))
        continue;
      for (guint j = 0; j < turn->tokens->len; j++)
        if ((guint32) g_array_index (turn->tokens, gint32, j) >= n_vocab)
          {
            llm_conversation_drop_tokens (self, i);
            return FALSE;
          }
    }
  return TRUE;
}

guint
llm_conversation_count_tokens (LlmConversation *self,
                               const char      *identity)
{
  const LlmTurn *last = get_last (self);
  guint end = find_settled_end (self, identity);
  guint n_tokens = 0;

  if (last != NULL && last->counted_by != NULL)
    return last->n_total;
  for (guint i = 0; i < self->turns->len; i++)
    {
      LlmTurn *turn = g_ptr_array_index (self->turns, i);

      if (i >= end || turn->tokens != NULL)
        n_tokens += turn->tokens != NULL ? turn->tokens->len : turn->n_tokens;
    }
  return n_tokens;
}

/* Of the turn's tokens, one by one. */
static void
add_levels (const LlmTurn *turn,
            GArray        *levels)
{
  for (guint i = 0; i < turn->tokens->len; i++)
    {
      gboolean is_sparse = i + turn->n_sparse >= turn->tokens->len;
      guint level = is_sparse ? LLM_TURN_SPARSE + turn->sparsity : turn->sub_model;
      guint16 item = (guint16) (level + (i < turn->n_w8 ? LLM_TURN_W8 : 0));

      g_array_append_val (levels, item);
    }
}

LlmPoint
llm_conversation_get_settled (LlmConversation *self,
                              const char      *identity,
                              GArray          *tokens,
                              GArray          *levels,
                              guint           *first_message)
{
  guint end = find_settled_end (self, identity);
  LlmPoint point = LLM_POINT_START;

  *first_message = 0;
  for (guint i = 0; i < end; i++)
    {
      LlmTurn *turn = g_ptr_array_index (self->turns, i);

      *first_message += turn->messages->len;
      if (turn->tokens == NULL)
        continue;
      g_array_append_vals (tokens, turn->tokens->data, turn->tokens->len);
      if (levels != NULL)
        add_levels (turn, levels);
      point = turn->is_closed ? LLM_POINT_CLOSED_ANSWER : LLM_POINT_OPEN_ANSWER;
    }
  return point;
}
