/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl-suggest.h"

#include <string.h>

#define MAX_SUGGEST_LENGTH 48

static guint
count_edits (const char *a,
             const char *b)
{
  gsize n_a = strlen (a);
  gsize n_b = strlen (b);
  guint rows[3][MAX_SUGGEST_LENGTH + 1];

  for (gsize j = 0; j <= n_b; j++)
    rows[0][j] = (guint) j;
  for (gsize i = 1; i <= n_a; i++)
    {
      guint *row = rows[i % 3];
      const guint *above = rows[(i - 1) % 3];
      const guint *above_two = rows[(i + 1) % 3];

      row[0] = (guint) i;
      for (gsize j = 1; j <= n_b; j++)
        {
          gboolean is_same = g_ascii_tolower (a[i - 1]) == g_ascii_tolower (b[j - 1]);

          row[j] = MIN (MIN (above[j], row[j - 1]) + 1, above[j - 1] + (is_same ? 0 : 1));
          if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
            row[j] = MIN (row[j], above_two[j - 2] + 1);
        }
    }

  return rows[n_a % 3][n_b];
}

const char *
llmctl_suggest (const char        *word,
                const char *const *candidates)
{
  gsize length = strlen (word);
  const char *best = NULL;
  guint best_edits = (guint) length / 3 + 1;

  if (length == 0 || length > MAX_SUGGEST_LENGTH)
    return NULL;

  for (gsize i = 0; candidates[i] != NULL; i++)
    {
      guint edits;

      if (strlen (candidates[i]) > MAX_SUGGEST_LENGTH)
        continue;
      edits = count_edits (word, candidates[i]);
      if (edits <= best_edits && (best == NULL || edits < best_edits))
        {
          best = candidates[i];
          best_edits = edits;
        }
    }
  /* The beginning of a longer name. */
  for (gsize i = 0; best == NULL && length > 1 && candidates[i] != NULL; i++)
    if (g_str_has_prefix (candidates[i], word))
      best = candidates[i];

  return best;
}
