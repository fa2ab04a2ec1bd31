/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tokenizer/llm-tokenizer-private.h"

#include <string.h>

static int
compare_texts (gconstpointer a,
               gconstpointer b,
               gpointer      user_data)
{
  const LlmVocab *vocab = user_data;
  gsize length_a, length_b;
  const char *text_a = llm_vocab_get_text (vocab, *(const gint32 *) a, &length_a);
  const char *text_b = llm_vocab_get_text (vocab, *(const gint32 *) b, &length_b);
  int order = memcmp (text_a, text_b, MIN (length_a, length_b));

  if (order != 0)
    return order;
  return (length_a > length_b) - (length_a < length_b);
}

void
llm_special_set_init (LlmSpecialSet  *self,
                      const LlmVocab *vocab,
                      GArray         *ids)
{
  guint at = 0;

  g_array_sort_with_data (ids, compare_texts, (gpointer) vocab);

  self->vocab = vocab;
  self->n_ids = ids->len;
  self->ids = g_memdup2 (ids->data, ids->len * sizeof (gint32));
  for (guint byte = 0; byte < 256; byte++)
    {
      self->first[byte] = at;
      while (at < self->n_ids && (guint8) vocab->texts[vocab->offsets[self->ids[at]]] == byte)
        at++;
    }
  self->first[256] = at;
}

void
llm_special_set_clear (LlmSpecialSet *self)
{
  g_clear_pointer (&self->ids, g_free);
}

/* The first of the ids from @low to @high whose text has a byte not below
 * @byte at @depth. All of these are longer than @depth. */
static guint
find_byte (const LlmSpecialSet *self,
           guint                low,
           guint                high,
           gsize                depth,
           guint                byte)
{
  while (low < high)
    {
      guint middle = low + (high - low) / 2;
      gsize length;
      const char *text = llm_vocab_get_text (self->vocab, self->ids[middle], &length);

      if ((guint8) text[depth] < byte)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

gint32
llm_special_set_match (const LlmSpecialSet *self,
                       const char          *at,
                       const char          *end,
                       gsize               *length)
{
  guint low = self->first[(guint8) *at];
  guint high = self->first[(guint8) *at + 1];
  gint32 match = -1;

  for (gsize depth = 1; low < high; depth++)
    {
      guint byte;

      /* Those that end here come first, as all of these texts begin alike. */
      for (; low < high; low++)
        {
          gsize text_length;

          llm_vocab_get_text (self->vocab, self->ids[low], &text_length);
          if (text_length > depth)
            break;
          match = self->ids[low];
          *length = depth;
        }

      if (at + depth >= end)
        break;
      byte = (guint8) at[depth];
      low = find_byte (self, low, high, depth, byte);
      high = find_byte (self, low, high, depth, byte + 1);
    }
  return match;
}
