/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The reading loop, compiled once for each set of instructions: the compiler makes of
 * a line what the set has. */

#pragma once

#include <glib.h>

#define INLINE static inline __attribute__ ((always_inline))

#define LINE_BYTES 64
#define STEP_LINES 4
#define PREFETCH_BYTES 2048

typedef guint64 Line __attribute__ ((vector_size (LINE_BYTES), aligned (LINE_BYTES), may_alias));

INLINE guint64
read_streams (const guint8 *data,
              gsize         n_bytes,
              guint         n_streams,
              gboolean      prefetches)
{
  gsize stream_bytes = n_bytes / n_streams;
  Line sums[STEP_LINES] = { 0 };

  for (gsize at = 0; at < stream_bytes; at += STEP_LINES * LINE_BYTES)
    for (guint s = 0; s < n_streams; s++)
      {
        const guint8 *step = data + s * stream_bytes + at;

        for (guint i = 0; i < STEP_LINES; i++)
          {
            if (prefetches)
              __builtin_prefetch (step + PREFETCH_BYTES + i * LINE_BYTES);
            sums[i] ^= *(const Line *) (step + i * LINE_BYTES);
          }
      }

  sums[0] ^= sums[1] ^ sums[2] ^ sums[3];
  return sums[0][0] ^ sums[0][1] ^ sums[0][2] ^ sums[0][3] ^ sums[0][4] ^ sums[0][5] ^
         sums[0][6] ^ sums[0][7];
}

static guint64
read_memory (const void *data,
             gsize       n_bytes,
             guint       n_streams,
             gboolean    prefetches)
{
  switch (n_streams)
    {
    case 1:
      return prefetches ? read_streams (data, n_bytes, 1, TRUE)
                        : read_streams (data, n_bytes, 1, FALSE);
    case 2:
      return read_streams (data, n_bytes, 2, prefetches);
    case 4:
      return read_streams (data, n_bytes, 4, prefetches);
    case 8:
      return read_streams (data, n_bytes, 8, prefetches);
    default:
      return read_streams (data, n_bytes, 16, prefetches);
    }
}
