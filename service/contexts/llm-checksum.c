/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/llm-checksum.h"

#include <string.h>
#include <xxhash.h>

struct _LlmChecksum
{
  XXH3_state_t *state;
};

LlmChecksum *
llm_checksum_new (void)
{
  LlmChecksum *self = g_new (LlmChecksum, 1);

  self->state = XXH3_createState ();
  XXH3_64bits_reset (self->state);
  return self;
}

void
llm_checksum_free (LlmChecksum *self)
{
  XXH3_freeState (self->state);
  g_free (self);
}

/* A length before all that has one: two rows that differ never give the same bytes. */
static void
add_bytes (LlmChecksum  *self,
           gconstpointer bytes,
           gsize         length)
{
  llm_checksum_add_number (self, (gint64) length);
  if (length > 0)
    XXH3_64bits_update (self->state, bytes, length);
}

void
llm_checksum_add_string (LlmChecksum *self,
                         const char  *string)
{
  if (string == NULL)
    llm_checksum_add_number (self, -1);
  else
    add_bytes (self, string, strlen (string));
}

/* The database may be copied to a machine of the other byte order. */
void
llm_checksum_add_number (LlmChecksum *self,
                         gint64       number)
{
  gint64 bytes = GINT64_TO_LE (number);

  XXH3_64bits_update (self->state, &bytes, sizeof bytes);
}

gint64
llm_checksum_end (LlmChecksum *self)
{
  gint64 sum = (gint64) XXH3_64bits_digest (self->state);

  llm_checksum_free (self);
  return sum;
}

gint64
llm_checksum_of_owner (const LlmStoredContext *context)
{
  LlmChecksum *self = llm_checksum_new ();

  llm_checksum_add_number (self, context->uid);
  llm_checksum_add_string (self, context->app);
  return llm_checksum_end (self);
}

gint64
llm_checksum_of_context (const LlmStoredContext *context)
{
  LlmChecksum *self = llm_checksum_new ();

  llm_checksum_add_string (self, context->id);
  llm_checksum_add_string (self, context->name);
  llm_checksum_add_number (self, (gint64) context->revision);
  llm_checksum_add_number (self, context->created);
  llm_checksum_add_number (self, context->used);
  llm_checksum_add_number (self, context->max_tokens);
  llm_checksum_add_string (self, context->slo);
  llm_checksum_add_number (self, context->n_turns);
  llm_checksum_add_string (self, context->damage);
  return llm_checksum_end (self);
}

LlmChecksum *
llm_checksum_begin_turn (const char    *context,
                         gint64         number,
                         const LlmTurn *turn,
                         const char    *results)
{
  LlmChecksum *self = llm_checksum_new ();

  llm_checksum_add_string (self, context);
  llm_checksum_add_number (self, number);
  llm_checksum_add_number (self, turn->is_base);
  llm_checksum_add_string (self, turn->request_id);
  llm_checksum_add_string (self, results);
  return self;
}

gint64
llm_checksum_of_tokens (const char    *context,
                        gint64         number,
                        const LlmTurn *turn)
{
  LlmChecksum *self = llm_checksum_new ();

  llm_checksum_add_string (self, context);
  llm_checksum_add_number (self, number);
  llm_checksum_add_string (self, turn->identity);
  llm_checksum_add_number (self, turn->is_closed);
  llm_checksum_add_number (self, turn->n_tokens);
  if (turn->tokens != NULL)
    add_bytes (self, turn->tokens->data, turn->tokens->len * sizeof (gint32));
  return llm_checksum_end (self);
}
