/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/llm-test-mo.h"

#include <string.h>

static void
append_uint32 (GByteArray *out,
               gsize       value,
               gboolean    is_swapped)
{
  guint32 number = (guint32) value;

  if (is_swapped)
    number = GUINT32_SWAP_LE_BE (number);
  g_byte_array_append (out, (const guint8 *) &number, sizeof number);
}

GBytes *
llm_test_mo_new (const char *const *entries,
                 gboolean           is_swapped)
{
  g_autoptr(GByteArray) out = g_byte_array_new ();
  gsize n = 0, at;

  while (entries[2 * n] != NULL)
    n++;

  append_uint32 (out, 0x950412deu, is_swapped);
  append_uint32 (out, 0, is_swapped);
  append_uint32 (out, n, is_swapped);
  append_uint32 (out, 28, is_swapped);
  append_uint32 (out, 28 + 8 * n, is_swapped);
  append_uint32 (out, 0, is_swapped);
  append_uint32 (out, 0, is_swapped);

  at = 28 + 16 * n;
  for (gsize which = 0; which < 2; which++)
    for (gsize i = 0; i < n; i++)
      {
        gsize length = strlen (entries[2 * i + which]);

        append_uint32 (out, length, is_swapped);
        append_uint32 (out, at, is_swapped);
        at += length + 1;
      }
  for (gsize which = 0; which < 2; which++)
    for (gsize i = 0; i < n; i++)
      g_byte_array_append (out, (const guint8 *) entries[2 * i + which],
                           (guint) strlen (entries[2 * i + which]) + 1);

  return g_byte_array_free_to_bytes (g_steal_pointer (&out));
}
