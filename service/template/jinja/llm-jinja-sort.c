/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sorting. A comparison may fail, so all memory is the arena's. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

static void
merge (LlmJinja *self, LlmJinjaEntry *entries, LlmJinjaEntry *spare, guint n, gboolean is_reverse)
{
  guint half = n / 2;
  guint left = 0, right = half;

  if (n < 2)
    return;
  merge (self, entries, spare, half, is_reverse);
  merge (self, entries + half, spare, n - half, is_reverse);
  memcpy (spare, entries, n * sizeof *entries);
  for (guint i = 0; i < n; i++)
    {
      gboolean takes_left = right == n;

      llm_jinja_step (self, 1);
      if (left < half && right < n)
        {
          const LlmJinjaValue *a = &spare[left].key, *b = &spare[right].key;
          /* what is equal need not be comparable: None and None */
          int order = llm_jinja_equal (self, a, b) ? 0 : llm_jinja_compare (self, a, b);

          takes_left = is_reverse ? order >= 0 : order <= 0;
        }
      entries[i] = takes_left ? spare[left++] : spare[right++];
    }
}

void
llm_jinja_sort (LlmJinja *self, LlmJinjaEntry *entries, guint n_entries, gboolean is_reverse)
{
  if (n_entries > 1)
    merge (self, entries, llm_jinja_alloc (self, n_entries * sizeof *entries), n_entries,
           is_reverse);
}
