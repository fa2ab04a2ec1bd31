/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sample of the weights: what tells files with the same header and other weights apart, for the
 * price of some hundred pages. */

#include "model/gguf/llm-gguf.h"

#include <xxhash.h>

/* What is read at once: aligned in the file, so that each is one page of the page cache. */
#define PAGE_BYTES ((guint64) 4096)
/* Pages beside the one that every tensor has: the larger ones get more. */
#define N_PAGES 256

/* Adds the page at @offset to the hash; without one has it read, so that a disk finds its own order,
 * and without what else the kernel would read around each. */
static void
visit_page (LlmGguf      *self,
            guint64       offset,
            guint64       length,
            XXH3_state_t *state)
{
  guint64 place[] = { GUINT64_TO_LE (offset), GUINT64_TO_LE (length) };

  if (state == NULL)
    {
      llm_file_map_prefetch (self->map, offset, length);
      return;
    }
  XXH3_64bits_update (state, place, sizeof place);
  XXH3_64bits_update (state, llm_file_map_get_data (self->map) + offset, length);
}

/* One page in each of @n equal parts of the tensor, somewhere in it, but always at the same place:
 * changes come at regular distances, too. */
static void
visit_tensor (LlmGguf             *self,
              const LlmGgufTensor *tensor,
              guint64              n,
              XXH3_state_t        *state)
{
  for (guint64 i = 0; i < n; i++)
    {
      guint64 begin = tensor->bytes / n * i;
      guint64 end = i + 1 < n ? tensor->bytes / n * (i + 1) : tensor->bytes;
      guint64 seed[] = { GUINT64_TO_LE (tensor->offset), GUINT64_TO_LE (i) };
      guint64 at = tensor->offset + begin + XXH3_64bits (seed, sizeof seed) % (end - begin);

      at = MAX (at / PAGE_BYTES * PAGE_BYTES, tensor->offset);
      visit_page (self, at,
                  MIN ((at / PAGE_BYTES + 1) * PAGE_BYTES, tensor->offset + tensor->bytes) - at,
                  state);
    }
}

static void
visit_tensors (LlmGguf      *self,
               XXH3_state_t *state)
{
  guint64 bytes = 0;
  double pages_per_byte;

  for (guint i = 0; i < self->tensors->len; i++)
    bytes += llm_gguf_get_tensor (self, i)->bytes;
  pages_per_byte = N_PAGES / (double) MAX (bytes, 1);
  for (guint i = 0; i < self->tensors->len; i++)
    {
      const LlmGgufTensor *tensor = llm_gguf_get_tensor (self, i);
      guint64 n = 1 + (guint64) ((double) tensor->bytes * pages_per_byte);

      /* a part is a page at least; of a tensor without bytes there is nothing to see */
      n = MIN (n, (tensor->bytes + PAGE_BYTES - 1) / PAGE_BYTES);
      visit_tensor (self, tensor, n, state);
    }
}

static guint64
hash_weights (LlmGguf *self)
{
  guint64 parts[] = { GUINT64_TO_LE (self->header_hash),
                      GUINT64_TO_LE (llm_file_map_get_size (self->map)) };
  XXH3_state_t *state = XXH3_createState ();
  guint64 hash;

  visit_tensors (self, NULL);
  XXH3_64bits_reset (state);
  XXH3_64bits_update (state, parts, sizeof parts);
  visit_tensors (self, state);
  hash = XXH3_64bits_digest (state);
  XXH3_freeState (state);
  return hash;
}

guint64
llm_gguf_get_weights_hash (LlmGguf *self)
{
  if (g_once_init_enter (&self->has_weights_hash))
    {
      self->weights_hash = hash_weights (self);
      g_once_init_leave (&self->has_weights_hash, 1);
    }
  return self->weights_hash;
}
