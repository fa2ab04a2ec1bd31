/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/llm-conversation.h"

static LlmTurn *
new_turn (const char *role,
          const char *text)
{
  LlmTurn *turn = llm_turn_new ();

  g_ptr_array_add (turn->messages, llm_stored_message_new (role, text, NULL));
  return turn;
}

/* A question with its answer, settled by @n tokens first, first + 1, …. */
static LlmTurn *
new_answer (gint32      first,
            guint       n,
            const char *identity,
            gboolean    is_closed)
{
  LlmTurn *turn = new_turn ("user", "question");

  g_ptr_array_add (turn->messages, llm_stored_message_new ("assistant", "answer", NULL));
  turn->results = g_variant_ref_sink (g_variant_new ("a{sv}", NULL));
  if (identity != NULL)
    {
      turn->tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
      for (guint i = 0; i < n; i++)
        {
          gint32 token = first + i;

          g_array_append_val (turn->tokens, token);
        }
      turn->identity = g_strdup (identity);
    }
  turn->is_closed = is_closed;
  turn->n_tokens = n;
  return turn;
}

static void
assert_settled (LlmConversation *conversation,
                const char      *identity,
                LlmPoint         point,
                guint            n_tokens,
                guint            first_message)
{
  g_autoptr(GArray) tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr(GArray) levels = g_array_new (FALSE, FALSE, sizeof (guint16));
  guint first;

  g_assert_cmpint (llm_conversation_get_settled (conversation, identity, tokens, levels, &first),
                   ==, point);
  g_assert_cmpuint (levels->len, ==, tokens->len);
  g_assert_cmpuint (tokens->len, ==, n_tokens);
  g_assert_cmpuint (first, ==, first_message);
  for (guint i = 0; i < tokens->len; i++)
    g_assert_cmpint (g_array_index (tokens, gint32, i), ==, (gint32) i);
}

static void
test_settled (void)
{
  g_autoptr(LlmConversation) conversation = llm_conversation_new ();

  assert_settled (conversation, "m", LLM_POINT_START, 0, 0);
  llm_conversation_add_turn (conversation, new_turn ("system", "be kind"));
  assert_settled (conversation, "m", LLM_POINT_START, 0, 0);
  llm_conversation_add_turn (conversation, new_answer (0, 10, "m", TRUE));
  assert_settled (conversation, "m", LLM_POINT_CLOSED_ANSWER, 10, 3);
  llm_conversation_add_turn (conversation, new_turn ("user", "by the way"));
  assert_settled (conversation, "m", LLM_POINT_CLOSED_ANSWER, 10, 3);
  llm_conversation_add_turn (conversation, new_answer (10, 5, "m", FALSE));
  assert_settled (conversation, "m", LLM_POINT_OPEN_ANSWER, 15, 6);

  /* With another model, nothing is settled. */
  assert_settled (conversation, "other", LLM_POINT_START, 0, 0);
  g_assert_cmpuint (conversation->messages->len, ==, 6);
}

/* Tokens of another model in front make later ones worthless, too. */
static void
test_mixed_models (void)
{
  g_autoptr(LlmConversation) conversation = llm_conversation_new ();

  llm_conversation_add_turn (conversation, new_answer (0, 10, "old", TRUE));
  llm_conversation_add_turn (conversation, new_answer (0, 4, "new", TRUE));
  assert_settled (conversation, "old", LLM_POINT_START, 0, 0);
  assert_settled (conversation, "new", LLM_POINT_START, 0, 0);
}

/* An answer behind a stop string has no tokens: it is rendered again until a
 * later answer settles it. */
static void
test_unsettled_answer (void)
{
  g_autoptr(LlmConversation) conversation = llm_conversation_new ();

  llm_conversation_add_turn (conversation, new_answer (0, 3, NULL, FALSE));
  assert_settled (conversation, "m", LLM_POINT_START, 0, 0);
  llm_conversation_add_turn (conversation, new_answer (0, 9, "m", TRUE));
  assert_settled (conversation, "m", LLM_POINT_CLOSED_ANSWER, 9, 4);
}

static void
test_rollback (void)
{
  g_autoptr(LlmConversation) conversation = llm_conversation_new ();
  LlmTurn *base = new_turn ("system", "be kind");

  base->is_base = TRUE;
  llm_conversation_add_turn (conversation, base);
  llm_conversation_add_turn (conversation, new_answer (0, 10, "m", TRUE));
  llm_conversation_add_turn (conversation, new_answer (10, 5, "m", TRUE));
  g_assert_cmpuint (llm_conversation_get_n_removable (conversation), ==, 2);
  llm_conversation_rollback (conversation, 1);
  assert_settled (conversation, "m", LLM_POINT_CLOSED_ANSWER, 10, 3);
  g_assert_cmpuint (conversation->messages->len, ==, 3);
  llm_conversation_rollback (conversation, 1);
  g_assert_cmpuint (llm_conversation_get_n_removable (conversation), ==, 0);
  g_assert_cmpuint (conversation->turns->len, ==, 1);
  assert_settled (conversation, "m", LLM_POINT_START, 0, 0);
}

static void
test_count (void)
{
  g_autoptr(LlmConversation) conversation = llm_conversation_new ();
  LlmTurn *appended = new_turn ("user", "a note");

  appended->n_tokens = 7;
  llm_conversation_add_turn (conversation, new_answer (0, 10, "m", TRUE));
  llm_conversation_add_turn (conversation, appended);
  g_assert_cmpuint (llm_conversation_count_tokens (conversation, "m"), ==, 17);
  /* Once an answer settles the note, its own count is part of that one's. */
  llm_conversation_add_turn (conversation, new_answer (10, 20, "m", TRUE));
  g_assert_cmpuint (llm_conversation_count_tokens (conversation, "m"), ==, 30);
}

static void
test_copy_and_request (void)
{
  g_autoptr(LlmConversation) conversation = llm_conversation_new ();
  g_autoptr(LlmConversation) copy = NULL;
  LlmTurn *turn = new_answer (0, 10, "m", TRUE);

  turn->request_id = g_strdup ("r1");
  llm_conversation_add_turn (conversation, turn);
  copy = llm_conversation_copy (conversation);
  llm_conversation_rollback (conversation, 1);
  g_assert_null (llm_conversation_find_request (conversation, "r1"));
  turn = llm_conversation_find_request (copy, "r1");
  g_assert_nonnull (turn);
  g_assert_cmpstr (llm_turn_get_answer (turn), ==, "answer");
  g_assert_null (llm_conversation_find_request (copy, "r2"));
  assert_settled (copy, "m", LLM_POINT_CLOSED_ANSWER, 10, 2);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/conversation/settled", test_settled);
  g_test_add_func ("/conversation/mixed-models", test_mixed_models);
  g_test_add_func ("/conversation/unsettled-answer", test_unsettled_answer);
  g_test_add_func ("/conversation/rollback", test_rollback);
  g_test_add_func ("/conversation/count", test_count);
  g_test_add_func ("/conversation/copy-and-request", test_copy_and_request);
  return g_test_run ();
}
