/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/llm-context-store.h"

#include <string.h>
#include <xxhash.h>

/* Adds values in order: `i` gint64, `s` const char * (nullable, which is not the same as empty),
 * `b` const void * and gsize. A length before all that has one: two rows that differ never give the
 * same bytes. The database may be copied to a machine of the other byte order. */
static void
add (GByteArray *row,
     const char *types,
     ...)
{
  va_list values;

  va_start (values, types);
  for (; *types != '\0'; types++)
    {
      const void *bytes = *types != 'i' ? va_arg (values, const void *) : NULL;
      gint64 number = *types == 'i'   ? va_arg (values, gint64)
                      : *types == 'b' ? (gint64) va_arg (values, gsize)
                      : bytes != NULL ? (gint64) strlen (bytes)
                                      : -1;
      gint64 little = GINT64_TO_LE (number);

      g_byte_array_append (row, (const guint8 *) &little, sizeof little);
      if (bytes != NULL && number > 0)
        g_byte_array_append (row, bytes, (guint) number);
    }
  va_end (values);
}

static gint64
get_sum (const GByteArray *row)
{
  return (gint64) XXH3_64bits (row->data, row->len);
}

gint64
llm_checksum_of_owner (const LlmStoredContext *context)
{
  g_autoptr(GByteArray) row = g_byte_array_new ();

  add (row, "is", (gint64) context->uid, context->app);
  return get_sum (row);
}

gint64
llm_checksum_of_context (const LlmStoredContext *context)
{
  g_autoptr(GByteArray) row = g_byte_array_new ();

  add (row, "ssiiiisis", context->id, context->name, (gint64) context->revision,
       context->created, context->used, (gint64) context->max_tokens, context->slo,
       (gint64) context->n_turns, context->damage);
  return get_sum (row);
}

gint64
llm_checksum_of_turn (const char      *context,
                      gint64           number,
                      const LlmTurn   *turn,
                      const char      *results,
                      const GPtrArray *extras)
{
  g_autoptr(GByteArray) row = g_byte_array_new ();

  add (row, "siiss", context, number, (gint64) turn->is_base, turn->request_id, results);
  for (guint i = 0; i < turn->messages->len; i++)
    {
      const LlmStoredMessage *message = g_ptr_array_index (turn->messages, i);

      add (row, "sss", message->role, message->text, g_ptr_array_index (extras, i));
    }
  return get_sum (row);
}

gint64
llm_checksum_of_tokens (const char    *context,
                        gint64         number,
                        const LlmTurn *turn)
{
  g_autoptr(GByteArray) row = g_byte_array_new ();

  add (row, "sisii", context, number, turn->identity, (gint64) turn->is_closed,
       (gint64) turn->n_tokens);
  if (turn->tokens != NULL)
    add (row, "b", turn->tokens->data, (gsize) turn->tokens->len * sizeof (gint32));
  if (turn->sub_model != 100)
    add (row, "i", (gint64) turn->sub_model);
  if (turn->n_sparse > 0)
    add (row, "ii", (gint64) turn->sparsity, (gint64) turn->n_sparse);
  if (turn->n_w8 > 0)
    add (row, "i", (gint64) turn->n_w8);
  return get_sum (row);
}
