/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/llmsvc-error.h"

/* More than any model has, little enough that sizes can't overflow. */
#define MAX_LAYERS 4096
#define MAX_KV_HEADS 4096

/* The bytes of a NaN in every format. */
#define POISON 0xff

#define HUGE_PAGE ((gsize) 2 << 20)
/* Address space of a block, unless a single chunk takes more. */
#define BLOCK_BYTES ((gsize) 32 << 20)

static gboolean
check_layout (const LlmKvLayout *layout,
              GError           **error)
{
  if (layout->kind != LLM_KV_FULL && layout->kind != LLM_KV_WINDOW)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED,
                   "Context memory of kind %d is not supported: full and window are",
                   (int) layout->kind);
      return FALSE;
    }
  if (layout->format != LLM_KV_F32 && layout->format != LLM_KV_F16)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED,
                   "Context memory in format %d is not supported: only F32 and F16 are",
                   (int) layout->format);
      return FALSE;
    }
  if (layout->n_layers < 1 || layout->n_layers > MAX_LAYERS || layout->n_kv_heads < 1
      || layout->n_kv_heads > MAX_KV_HEADS || layout->head_dim < 1
      || layout->head_dim > LLK_MAX_HEAD_DIM || layout->chunk_slots < 1
      || layout->chunk_slots > LLK_ATTENTION_MAX_SLOTS)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED,
                   "Context memory for %u layers of %u heads of %u values in chunks of %u "
                   "positions is not supported: at most %u layers, %u heads, %u values, %u "
                   "positions are",
                   layout->n_layers, layout->n_kv_heads, layout->head_dim, layout->chunk_slots,
                   MAX_LAYERS, MAX_KV_HEADS, LLK_MAX_HEAD_DIM, LLK_ATTENTION_MAX_SLOTS);
      return FALSE;
    }
  if (layout->chunk_slots % LLK_ATTENTION_GROUP != 0)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED,
                   "Context memory in chunks of %u positions is not supported: only multiples "
                   "of %u are",
                   layout->chunk_slots, LLK_ATTENTION_GROUP);
      return FALSE;
    }

  return TRUE;
}

LlmKvStore *
llm_kv_store_new (const LlmKvLayout *layout,
                  LlmLedger         *ledger,
                  GError           **error)
{
  LlmKvStore *self;
  gsize page = (gsize) sysconf (_SC_PAGESIZE);

  g_return_val_if_fail (layout != NULL, NULL);

  if (!check_layout (layout, error))
    return NULL;

  self = g_new0 (LlmKvStore, 1);
  self->layout = *layout;
  self->ledger = ledger != NULL ? llm_ledger_ref (ledger) : NULL;
  self->ops = llk_ops_best ();
  self->value_bytes = layout->format == LLM_KV_F32 ? sizeof (float) : sizeof (guint16);
  self->part_bytes = (gsize) layout->chunk_slots * layout->head_dim * self->value_bytes;
  self->chunk_bytes = self->part_bytes * 2 * layout->n_kv_heads * layout->n_layers;
  self->chunk_bytes = (self->chunk_bytes + page - 1) / page * page;
  self->block_chunks = (guint) CLAMP (BLOCK_BYTES / self->chunk_bytes, 1, LLM_KV_BLOCK_CHUNKS);
  self->block_bytes = (self->block_chunks * self->chunk_bytes + HUGE_PAGE - 1) / HUGE_PAGE
                      * HUGE_PAGE;
  self->blocks = g_ptr_array_new_with_free_func (g_free);
  return self;
}

void
llm_kv_store_free (LlmKvStore *self)
{
  if (self == NULL)
    return;

  g_assert (self->n_sequences == 0 && self->n_chunks == 0 && self->blocks->len == 0);
  g_ptr_array_unref (self->blocks);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  g_free (self);
}

const LlmKvLayout *
llm_kv_store_get_layout (LlmKvStore *self)
{
  return &self->layout;
}

guint64
llm_kv_store_get_bytes (LlmKvStore *self)
{
  return (guint64) self->n_chunks * self->chunk_bytes;
}

/* The worst case: the last chunk has one slot left and is shared, so it is copied. */
guint64
llm_kv_store_price (LlmKvStore *self,
                    guint       n_slots)
{
  guint slots = self->layout.chunk_slots;

  if (n_slots == 0)
    return 0;

  return (1 + ((guint64) n_slots - 1 + slots - 1) / slots) * self->chunk_bytes;
}

/* Address space at a multiple of a huge page. What isn't written takes no
 * memory, and a core dump leaves out what users wrote. */
static LlmKvBlock *
add_block (LlmKvStore *store)
{
  gsize bytes = store->block_bytes + HUGE_PAGE;
  guint8 *mapped = mmap (NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  LlmKvBlock *block;
  gsize before;

  if (mapped == MAP_FAILED)
    return NULL;

  before = (HUGE_PAGE - (guintptr) mapped % HUGE_PAGE) % HUGE_PAGE;
  if (before > 0)
    munmap (mapped, before);
  munmap (mapped + before + store->block_bytes, HUGE_PAGE - before);

  block = g_new0 (LlmKvBlock, 1);
  block->data = mapped + before;
  (void) madvise (block->data, store->block_bytes, MADV_DONTDUMP);
  (void) madvise (block->data, store->block_bytes, MADV_HUGEPAGE);
  g_ptr_array_add (store->blocks, block);
  return block;
}

static LlmKvBlock *
find_block (LlmKvStore *store)
{
  guint64 full = G_MAXUINT64 >> (LLM_KV_BLOCK_CHUNKS - store->block_chunks);

  for (guint i = 0; i < store->blocks->len; i++)
    {
      LlmKvBlock *block = g_ptr_array_index (store->blocks, i);

      if (block->used != full)
        return block;
    }

  return add_block (store);
}

LlmKvChunk *
llm_kv_chunk_new (LlmKvStore *store)
{
  LlmKvBlock *block = find_block (store);
  LlmKvChunk *chunk;
  guint place;

  if (block == NULL)
    return NULL;

  place = (guint) __builtin_ctzll (~block->used);
  block->used |= G_GUINT64_CONSTANT (1) << place;
  chunk = g_new (LlmKvChunk, 1);
  chunk->n_holders = 1;
  chunk->data = block->data + place * store->chunk_bytes;
  chunk->block = block;
  store->n_chunks++;
  if (store->ledger != NULL)
    llm_ledger_add (store->ledger, LLM_HOLDER_KV, store->chunk_bytes);
  llm_kv_chunk_poison (store, chunk, 0);
  return chunk;
}

LlmKvChunk *
llm_kv_chunk_copy (LlmKvStore       *store,
                   const LlmKvChunk *from)
{
  LlmKvChunk *chunk = llm_kv_chunk_new (store);

  if (chunk != NULL)
    memcpy (chunk->data, from->data, store->chunk_bytes);
  return chunk;
}

/* At once: the kernel takes a chunk out of its huge pages, where it shares them. */
static void
give_back (LlmKvStore *store,
           LlmKvChunk *chunk)
{
  LlmKvBlock *block = chunk->block;
  gsize place = (gsize) (chunk->data - block->data) / store->chunk_bytes;

  block->used &= ~(G_GUINT64_CONSTANT (1) << place);
  if (block->used != 0)
    {
      (void) madvise (chunk->data, store->chunk_bytes, MADV_DONTNEED);
      return;
    }

  munmap (block->data, store->block_bytes);
  g_ptr_array_remove_fast (store->blocks, block);
}

void
llm_kv_chunk_unref (LlmKvStore *store,
                    LlmKvChunk *chunk)
{
  g_assert (chunk->n_holders > 0);
  if (--chunk->n_holders > 0)
    return;

  give_back (store, chunk);
  g_free (chunk);
  store->n_chunks--;
  if (store->ledger != NULL)
    llm_ledger_remove (store->ledger, LLM_HOLDER_KV, store->chunk_bytes);
}

guint8 *
llm_kv_chunk_part (LlmKvStore *store,
                   LlmKvChunk *chunk,
                   guint       layer,
                   guint       head,
                   guint       part)
{
  gsize index = ((gsize) layer * store->layout.n_kv_heads + head) * 2 + part;

  return chunk->data + index * store->part_bytes;
}

void
llm_kv_chunk_poison (LlmKvStore *store,
                     LlmKvChunk *chunk,
                     guint       first)
{
#ifdef LLM_POISON
  const LlmKvLayout *layout = &store->layout;
  guint n_left = layout->chunk_slots - first;
  gsize row_bytes = layout->chunk_slots * store->value_bytes;
  gsize slot_bytes = layout->head_dim * store->value_bytes;

  for (guint layer = 0; layer < layout->n_layers; layer++)
    for (guint head = 0; head < layout->n_kv_heads; head++)
      {
        guint8 *k = llm_kv_chunk_part (store, chunk, layer, head, 0);
        guint8 *v = llm_kv_chunk_part (store, chunk, layer, head, 1);

        for (guint d = 0; d < layout->head_dim; d++)
          memset (k + d * row_bytes + first * store->value_bytes, POISON,
                  n_left * store->value_bytes);
        memset (v + first * slot_bytes, POISON, n_left * slot_bytes);
      }
#endif
}
