/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "runtime/llm-window.h"

/* The window slides by one of so many parts at a time. */
#define PARTS 4

guint
llm_window_get_sinks (guint n_system,
                      guint chunk_slots)
{
  guint n_chunks = n_system / chunk_slots + (n_system % chunk_slots != 0);

  return MAX (n_chunks, 1) * chunk_slots;
}

gboolean
llm_window_is_possible (guint n_ctx,
                        guint n_sinks,
                        guint chunk_slots)
{
  return n_ctx / PARTS >= chunk_slots && n_sinks <= n_ctx / 2;
}

guint
llm_window_get_n_slid (guint n_tokens,
                       guint n_ctx,
                       guint chunk_slots)
{
  guint n_chunks = (n_ctx / PARTS + chunk_slots - 1) / chunk_slots;
  guint step = n_chunks * chunk_slots;

  g_assert (n_ctx / PARTS >= chunk_slots);

  if (n_tokens <= n_ctx)
    return 0;
  return (n_tokens - n_ctx + step - 1) / step * step;
}
