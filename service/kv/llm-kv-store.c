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
  self->plane_bytes = (gsize) layout->n_kv_heads * layout->chunk_slots * layout->head_dim
                      * self->value_bytes;
  self->chunk_bytes = (self->plane_bytes * 2 * layout->n_layers + page - 1) / page * page;
  return self;
}

void
llm_kv_store_free (LlmKvStore *self)
{
  if (self == NULL)
    return;

  g_assert (self->n_sequences == 0 && self->n_chunks == 0);
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

/* Pages straight from the kernel: what is freed is given back at once, and a
 * core dump leaves out what users wrote. */
LlmKvChunk *
llm_kv_chunk_new (LlmKvStore *store)
{
  LlmKvChunk *chunk;
  void *data = mmap (NULL, store->chunk_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  if (data == MAP_FAILED)
    return NULL;

  (void) madvise (data, store->chunk_bytes, MADV_DONTDUMP);
  chunk = g_new (LlmKvChunk, 1);
  chunk->n_holders = 1;
  chunk->data = data;
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

void
llm_kv_chunk_unref (LlmKvStore *store,
                    LlmKvChunk *chunk)
{
  g_assert (chunk->n_holders > 0);
  if (--chunk->n_holders > 0)
    return;

  munmap (chunk->data, store->chunk_bytes);
  g_free (chunk);
  store->n_chunks--;
  if (store->ledger != NULL)
    llm_ledger_remove (store->ledger, LLM_HOLDER_KV, store->chunk_bytes);
}

guint8 *
llm_kv_chunk_plane (LlmKvStore *store,
                    LlmKvChunk *chunk,
                    guint       layer,
                    guint       part)
{
  return chunk->data + (2 * (gsize) layer + part) * store->plane_bytes;
}

void
llm_kv_chunk_poison (LlmKvStore *store,
                     LlmKvChunk *chunk,
                     guint       first)
{
#ifdef LLM_POISON
  const LlmKvLayout *layout = &store->layout;
  gsize slot_bytes = layout->head_dim * store->value_bytes;

  for (guint plane = 0; plane < 2 * layout->n_layers; plane++)
    for (guint head = 0; head < layout->n_kv_heads; head++)
      {
        guint8 *slots = chunk->data + plane * store->plane_bytes
                        + (gsize) head * layout->chunk_slots * slot_bytes;

        memset (slots + first * slot_bytes, POISON, (layout->chunk_slots - first) * slot_bytes);
      }
#endif
}
