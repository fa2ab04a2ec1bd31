/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reading a context and its turns. Nothing that is stored is trusted: what is damaged is noticed
 * and told, and never becomes part of a prompt. */

#include "contexts/llm-context-store.h"

#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-option-value.h"
#include "sched/llm-slo.h"

/* As options allow them. */
#define MAX_MAX_TOKENS 16777216

/* The last part of an object path, and the name of a folder. */
#define MAX_ID_BYTES 64

/* --- a context --- */

static gboolean
is_good_id (const char *id)
{
  return id != NULL && *id != '\0' && strlen (id) <= MAX_ID_BYTES
         && id[strspn (id, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_")] == '\0';
}

static gboolean
is_good_name (const char *name)
{
  if (name == NULL || *name == '\0' || strlen (name) > LLM_STORED_MAX_NAME_BYTES)
    return FALSE;
  for (const char *p = name; *p != '\0'; p = g_utf8_next_char (p))
    if (!llmsvc_name_may_have (g_utf8_get_char (p)))
      return FALSE;
  return TRUE;
}

gboolean
llm_stored_context_read (LlmStoredContext *self,
                         sqlite3_stmt     *row)
{
  gint64 revision, max_tokens, n_turns;
  LlmSloClass slo_class;
  gboolean is_good = llm_db_get_number (row, 4, 0, G_MAXINT64, &revision);

  is_good &= llm_db_get_number (row, 5, 0, G_MAXINT64, &self->created);
  is_good &= llm_db_get_number (row, 6, 0, G_MAXINT64, &self->used);
  is_good &= llm_db_get_number (row, 7, 0, MAX_MAX_TOKENS, &max_tokens);
  is_good &= llm_db_get_number (row, 9, 0, G_MAXINT, &n_turns)
             || sqlite3_column_type (row, 9) == SQLITE_NULL;
  self->id = g_strdup (llm_db_get_text (row, 0));
  self->name = g_strdup (llm_db_get_text (row, 3));
  self->revision = (guint64) revision;
  self->max_tokens = (guint) max_tokens;
  self->slo = g_strdup (llm_db_get_text (row, 8));
  self->n_turns = (guint) n_turns;
  if (!llm_db_dup_text (row, 12, &self->damage))
    self->damage = g_strdup ("");
  is_good &= llm_db_check_sum (row, 11, llm_checksum_of_context (self));

  if (!is_good_id (self->id))
    g_clear_pointer (&self->id, g_free);
  if (!is_good_name (self->name))
    g_clear_pointer (&self->name, g_free);
  if (self->slo != NULL && !llm_slo_class_parse (self->slo, &slo_class))
    g_clear_pointer (&self->slo, g_free);
  return is_good && self->id != NULL && self->name != NULL && self->slo != NULL;
}

/* --- its turns --- */

static gboolean
fail_damaged (LlmStoredContext *context,
              GError          **error)
{
  if (context->damage == NULL)
    context->damage = g_strdup ("");
  return llm_fail (error, LLMSVC_ERROR_STORAGE, "The stored data of the context is damaged");
}

static GVariant *
parse_dict (const char *text)
{
  return g_variant_parse (G_VARIANT_TYPE_VARDICT, text, NULL, NULL, NULL);
}

/* Adds the messages of turn @number, and their extras as they are stored. */
static gboolean
load_messages (sqlite3          *db,
               LlmStoredContext *context,
               gint64            number,
               LlmTurn          *turn,
               GPtrArray        *extras,
               GError          **error)
{
  static const char *const roles[] = { "system", "user", "assistant", "tool", NULL };
  g_autoptr(sqlite3_stmt) row = llm_db_query (db, error,
    "SELECT role, text, extras, number FROM messages WHERE context = ? AND turn = ?"
    " ORDER BY number", "si", context->id, number);

  while (llm_db_next (row, error))
    {
      const char *role = llm_db_get_text (row, 0);
      const char *text = llm_db_get_text (row, 1);
      const char *printed = llm_db_get_text (row, 2);
      g_autoptr(GVariant) dict = printed != NULL ? parse_dict (printed) : NULL;
      gint64 place = turn->messages->len;

      if (role == NULL || !g_strv_contains (roles, role) || text == NULL || dict == NULL
          || !llm_db_get_number (row, 3, place, place, &place))
        return fail_damaged (context, error);
      g_ptr_array_add (extras, g_strdup (printed));
      g_ptr_array_add (turn->messages, llm_stored_message_new (role, text, dict));
    }
  return *error == NULL;
}

/* FALSE when they are damaged; they are then left out, as the text can be rendered again. */
static gboolean
read_tokens (sqlite3_stmt *row,
             const char   *context,
             gint64        number,
             LlmTurn      *turn)
{
  gsize n_bytes = (gsize) sqlite3_column_bytes (row, 4);
  int type = sqlite3_column_type (row, 4);
  gboolean is_good = type == SQLITE_NULL || (type == SQLITE_BLOB && n_bytes % sizeof (gint32) == 0);
  gint64 is_closed, n_tokens, n_total, sub_model = 100, sparsity = 0, n_sparse = 0, n_w8 = 0;

  is_good &= llm_db_get_number (row, 2, 0, 1, &is_closed);
  is_good &= llm_db_get_number (row, 3, 0, G_MAXINT, &n_tokens);
  is_good &= llm_db_dup_text (row, 5, &turn->identity);
  is_good &= sqlite3_column_type (row, 12) == SQLITE_NULL
             || llm_db_get_number (row, 12, 1, 99, &sub_model);
  is_good &= sqlite3_column_type (row, 13) == SQLITE_NULL
             || (llm_db_get_number (row, 13, 1, 99, &sparsity)
                 && llm_db_get_number (row, 14, 1, (gint64) (n_bytes / sizeof (gint32)), &n_sparse));
  is_good &= sqlite3_column_type (row, 15) == SQLITE_NULL
             || llm_db_get_number (row, 15, 1, (gint64) (n_bytes / sizeof (gint32)) - n_sparse, &n_w8);
  turn->sub_model = (guint) sub_model;
  turn->sparsity = (guint) sparsity;
  turn->n_sparse = (guint) n_sparse;
  turn->n_w8 = (guint) n_w8;
  turn->is_closed = is_closed != 0;
  turn->n_tokens = (guint) n_tokens;
  if (is_good && n_bytes > 0)
    {
      turn->tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
      g_array_append_vals (turn->tokens, sqlite3_column_blob (row, 4), n_bytes / sizeof (gint32));
    }
  for (guint i = 0; turn->tokens != NULL && i < turn->tokens->len; i++)
    is_good &= g_array_index (turn->tokens, gint32, i) >= 0;
  is_good = is_good && llm_db_check_sum (row, 9, llm_checksum_of_tokens (context, number, turn));
  if (!is_good)
    {
      g_clear_pointer (&turn->tokens, g_array_unref);
      g_clear_pointer (&turn->identity, g_free);
      turn->sub_model = 100;
      turn->sparsity = turn->n_sparse = turn->n_w8 = 0;
    }
  else if (llm_db_get_number (row, 10, 0, G_MAXINT, &n_total))
    {
      turn->n_total = (guint) n_total;
      turn->counted_by = g_strdup (llm_db_get_text (row, 11));
    }
  return is_good;
}

static gboolean
load_turn (sqlite3          *db,
           sqlite3_stmt     *row,
           LlmStoredContext *context,
           gint64            number,
           LlmTurn          *turn,
           gboolean         *has_tokens,
           GError          **error)
{
  g_autoptr(GPtrArray) extras = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *results = NULL;
  gint64 is_base;
  gboolean is_good = llm_db_get_number (row, 0, number, number, &number);

  is_good &= llm_db_get_number (row, 1, 0, number == 0 ? 1 : 0, &is_base);
  is_good &= llm_db_dup_text (row, 6, &turn->request_id);
  is_good &= llm_db_dup_text (row, 7, &results);
  turn->is_base = is_base != 0;
  turn->results = results != NULL ? parse_dict (results) : NULL;
  is_good &= (turn->results != NULL) == (results != NULL);
  *has_tokens = read_tokens (row, context->id, number, turn);
  if (is_good && !load_messages (db, context, number, turn, extras, error))
    return FALSE;
  return (is_good
          && llm_db_check_sum (row, 8, llm_checksum_of_turn (context->id, number, turn, results,
                                                             extras)))
         || fail_damaged (context, error);
}

/* Whether a context has as many turns as it should, as far as it is known. */
static gboolean
check_n_turns (sqlite3          *db,
               LlmStoredContext *context,
               GError          **error)
{
  g_autoptr(sqlite3_stmt) row =
    llm_db_query (db, error, "SELECT 1 FROM contexts WHERE id = ? AND n_turns <> ?", "si",
                  context->id, (gint64) context->turns->turns->len);

  return llm_db_next (row, error) ? fail_damaged (context, error) : *error == NULL;
}

static gboolean
load_turns (sqlite3          *db,
            LlmStoredContext *context,
            GError          **error)
{
  guint first_without = G_MAXUINT;
  g_autoptr(sqlite3_stmt) row = llm_db_query (db, error,
    "SELECT number, is_base, is_closed, n_tokens, tokens, identity, request_id, results, checksum,"
    " token_checksum, n_total, counted_by, sub_model, sparsity, n_sparse, n_w8 FROM turns"
    " WHERE context = ? ORDER BY number", "s",
    context->id);

  while (llm_db_next (row, error))
    {
      g_autoptr(LlmTurn) turn = llm_turn_new ();
      guint number = context->turns->turns->len;
      gboolean has_tokens;

      if (!load_turn (db, row, context, number, turn, &has_tokens, error))
        return FALSE;
      if (!has_tokens)
        first_without = MIN (first_without, number);
      llm_conversation_add_turn (context->turns, g_steal_pointer (&turn));
    }
  if (*error != NULL)
    return FALSE;
  if (first_without < G_MAXUINT)
    llm_conversation_drop_tokens (context->turns, first_without);
  return check_n_turns (db, context, error);
}

gboolean
llm_store_load_turns (sqlite3  *db,
                      gpointer  data,
                      GError  **error)
{
  LlmStoredContext *context = data;

  context->turns = llm_conversation_new ();
  if (load_turns (db, context, error))
    return TRUE;
  g_clear_pointer (&context->turns, llm_conversation_free);
  if (context->damage != NULL || sqlite3_errcode (db) != SQLITE_CORRUPT)
    return FALSE;
  g_clear_error (error);
  return fail_damaged (context, error);
}
