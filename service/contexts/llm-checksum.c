/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/llm-checksum.h"

#include <string.h>
#include <xxhash.h>

static XXH3_state_t *
begin (void)
{
  XXH3_state_t *state = XXH3_createState ();

  XXH3_64bits_reset (state);
  return state;
}

static gint64
end (XXH3_state_t *state)
{
  gint64 sum = (gint64) XXH3_64bits_digest (state);

  XXH3_freeState (state);
  return sum;
}

/* Adds values in order: `i` gint64, `s` const char * (nullable, which is not the same as empty), `b`
 * const void * and gsize. A length before all that has one: two rows that differ never give the
 * same bytes. The database may be copied to a machine of the other byte order. */
static void
add (XXH3_state_t *state,
     const char   *types,
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

      XXH3_64bits_update (state, &little, sizeof little);
      if (bytes != NULL && number > 0)
        XXH3_64bits_update (state, bytes, (gsize) number);
    }
  va_end (values);
}

gint64
llm_checksum_of_owner (const LlmStoredContext *context)
{
  XXH3_state_t *state = begin ();

  add (state, "is", (gint64) context->uid, context->app);
  return end (state);
}

gint64
llm_checksum_of_context (const LlmStoredContext *context)
{
  XXH3_state_t *state = begin ();

  add (state, "ssiiiisis", context->id, context->name, (gint64) context->revision,
       context->created, context->used, (gint64) context->max_tokens, context->slo,
       (gint64) context->n_turns, context->damage);
  return end (state);
}

gint64
llm_checksum_of_turn (const char      *context,
                      gint64           number,
                      const LlmTurn   *turn,
                      const char      *results,
                      const GPtrArray *extras)
{
  XXH3_state_t *state = begin ();

  add (state, "siiss", context, number, (gint64) turn->is_base, turn->request_id, results);
  for (guint i = 0; i < turn->messages->len; i++)
    {
      const LlmStoredMessage *message = g_ptr_array_index (turn->messages, i);

      add (state, "sss", message->role, message->text, g_ptr_array_index (extras, i));
    }
  return end (state);
}

gint64
llm_checksum_of_tokens (const char    *context,
                        gint64         number,
                        const LlmTurn *turn)
{
  XXH3_state_t *state = begin ();

  add (state, "sisii", context, number, turn->identity, (gint64) turn->is_closed,
       (gint64) turn->n_tokens);
  if (turn->tokens != NULL)
    add (state, "b", turn->tokens->data, (gsize) turn->tokens->len * sizeof (gint32));
  return end (state);
}
