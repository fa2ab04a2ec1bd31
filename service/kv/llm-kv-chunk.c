/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

#include <string.h>

/* The bytes of a NaN in every float format; in quantized formats the scales become NaN. */
#define POISON 0xff
/* Weight of a measured error in the running mean. */
#define ERROR_WEIGHT (1.0 / 64)

static void
count_bytes (LlmKvStore *store,
             LlmKvForm   form,
             gboolean    is_more)
{
  gboolean is_packed = llk_kv_is_packed (LLM_KV_FORM_FORMAT (form));
  guint64 bytes = store->arenas[form].bytes;

  store->bytes += is_more ? bytes : -bytes;
  if (is_packed)
    store->packed_bytes += is_more ? bytes : -bytes;
  if (store->ledger != NULL)
    (is_more ? llm_ledger_add : llm_ledger_remove) (
        store->ledger, is_packed ? LLM_HOLDER_KV_COMPRESSED : LLM_HOLDER_KV, bytes);
}

static void
count_spare (LlmKvStore *store,
             LlmKvForm   form,
             gboolean    is_more)
{
  guint64 bytes = store->arenas[form].bytes;

  store->spare_bytes += is_more ? bytes : -bytes;
  if (store->ledger != NULL)
    (is_more ? llm_ledger_add : llm_ledger_remove) (store->ledger, LLM_HOLDER_KV, bytes);
}

/* Zeroes the padding of a layer to a whole sector. It is written to storage, too: it must not hold
 * data of others, and equal chunks must have equal bytes. */
static void
clear_gaps (LlmKvStore *store,
            LlmKvForm   form,
            guint8     *data)
{
  const gsize *offsets = store->shape.offsets[form];

  for (guint layer = 0; layer < store->layout.n_layers; layer++)
    {
      gsize end = offsets[layer] + llm_kv_store_layer_bytes (store, form, layer);

      if (end < offsets[layer + 1])
        memset (data + end, 0, offsets[layer + 1] - end);
    }
}

/* @data: NULL also where the form has no bytes. FALSE when the system has no memory. */
static gboolean
take_memory (LlmKvStore *store,
             LlmKvForm   form,
             guint8    **data)
{
  gboolean has_bytes = store->arenas[form].bytes > 0;

  if (has_bytes && llm_kv_arena_has_spare (&store->arenas[form]))
    count_spare (store, form, FALSE);
  else if (store->spare_bytes > 0 && store->ledger != NULL
           && !llm_ledger_has_room (store->ledger, store->arenas[form].bytes))
    llm_kv_store_trim (store);
  *data = has_bytes ? llm_kv_arena_take (&store->arenas[form]) : NULL;
  if (has_bytes && *data == NULL)
    return FALSE;
#ifdef LLM_POISON
  if (has_bytes)
    memset (*data, POISON, store->arenas[form].bytes);
#endif
  if (has_bytes)
    clear_gaps (store, form, *data);
  count_bytes (store, form, TRUE);
  return TRUE;
}

LlmKvChunk *
llm_kv_chunk_new (LlmKvStore *store)
{
  LlmKvChunk *chunk = g_new0 (LlmKvChunk, 1);

  chunk->n_holders = 1;
  return chunk;
}

gboolean
llm_kv_chunk_allocate (LlmKvStore *store,
                       LlmKvChunk *chunk,
                       LlmKvForm   form,
                       LlmKvState  state)
{
  g_assert (chunk->state == LLM_KV_GONE && chunk->data == NULL);

  if (!take_memory (store, form, &chunk->data))
    return FALSE;
  chunk->form = form;
  chunk->state = state;
  return TRUE;
}

static void
give_memory (LlmKvStore *store,
             LlmKvForm   form,
             guint8     *data)
{
  gboolean keeps = store->keeps_pages
                   || store->spare_bytes + store->arenas[form].bytes <= LLM_KV_SPARE_BYTES;

  if (data != NULL)
    llm_kv_arena_give (&store->arenas[form], data, keeps);
  count_bytes (store, form, FALSE);
  if (data != NULL && keeps)
    count_spare (store, form, TRUE);
}

void
llm_kv_chunk_set_narrow (LlmKvStore *store,
                         LlmKvChunk *chunk,
                         gboolean    is_narrow)
{
  if (chunk->is_narrow != is_narrow)
    store->n_narrow += is_narrow ? 1 : -1;
  chunk->is_narrow = is_narrow;
}

void
llm_kv_chunk_take_wide (LlmKvStore *store,
                        LlmKvChunk *chunk,
                        LlmKvChunk *wide)
{
  g_assert (chunk->state == LLM_KV_PRESENT && wide->state == LLM_KV_PRESENT);

  give_memory (store, chunk->form, chunk->data);
  chunk->form = wide->form;
  chunk->data = g_steal_pointer (&wide->data);
  chunk->content = 0;
  wide->state = LLM_KV_GONE;
  llm_kv_chunk_set_narrow (store, chunk, FALSE);
  llm_kv_chunk_queue (store, chunk, FALSE);
}

void
llm_kv_chunk_drop (LlmKvStore *store,
                   LlmKvChunk *chunk)
{
  g_assert (chunk->n_pins == 0);

  llm_kv_queue_remove (&chunk->entry);
  if (chunk->state != LLM_KV_GONE)
    give_memory (store, chunk->form, chunk->data);
  chunk->state = LLM_KV_GONE;
  chunk->data = NULL;
  chunk->restorer = NULL;
  chunk->todo = 0;
  chunk->n_ready = 0;
  chunk->leaves = FALSE;
  llm_kv_chunk_set_narrow (store, chunk, FALSE);
  chunk->is_rounded = FALSE;
  chunk->content = 0;
}

static void
free_unused (LlmKvStore *store,
             LlmKvChunk *chunk)
{
  if (chunk->n_holders > 0 || chunk->n_pins > 0)
    return;

  llm_kv_chunk_drop (store, chunk);
  g_free (chunk);
}

void
llm_kv_chunk_unref (LlmKvStore *store,
                    LlmKvChunk *chunk)
{
  g_assert (chunk->n_holders > 0);

  chunk->n_holders--;
  if (chunk->n_holders == 0)
    llm_kv_queue_remove (&chunk->entry);
  free_unused (store, chunk);
}

void
llm_kv_chunk_unpin (LlmKvStore *store,
                    LlmKvChunk *chunk)
{
  g_assert (chunk->n_pins > 0);

  chunk->n_pins--;
  if (chunk->n_pins == 0 && chunk->state == LLM_KV_LOST)
    llm_kv_chunk_drop (store, chunk);
  free_unused (store, chunk);
}

void
llm_kv_chunk_queue (LlmKvStore *store,
                    LlmKvChunk *chunk,
                    gboolean    is_use)
{
  if (chunk->state != LLM_KV_PRESENT || chunk->n_locks > 0 || chunk->n_holders == 0)
    llm_kv_queue_remove (&chunk->entry);
  else if (is_use)
    llm_kv_queue_touch (&store->queue, &chunk->entry, LLM_KV_FORM_FORMAT (chunk->form));
  else
    llm_kv_queue_set_format (&store->queue, &chunk->entry, LLM_KV_FORM_FORMAT (chunk->form));
}

void
llm_kv_chunk_lock (LlmKvStore *store,
                   LlmKvChunk *chunk)
{
  chunk->n_locks++;
  chunk->leaves = FALSE;
  llm_kv_queue_remove (&chunk->entry);
}

void
llm_kv_chunk_unlock (LlmKvStore *store,
                     LlmKvChunk *chunk)
{
  g_assert (chunk->n_locks > 0);

  chunk->n_locks--;
  llm_kv_chunk_queue (store, chunk, TRUE);
}

void
llm_kv_chunk_abandon (LlmKvStore *store,
                      LlmKvChunk *chunk)
{
  chunk->restorer = NULL;
  if (chunk->state != LLM_KV_COMPUTING && chunk->state != LLM_KV_READING)
    return;

  if (chunk->n_pins > 0)
    chunk->state = LLM_KV_LOST;
  else
    llm_kv_chunk_drop (store, chunk);
}

void
llm_kv_chunk_clear_todo (LlmKvStore *store,
                         LlmKvChunk *chunk,
                         guint64     slots)
{
  if (chunk->state != LLM_KV_COMPUTING)
    return;

  chunk->todo &= ~slots;
  if (chunk->todo != 0)
    return;

  chunk->state = LLM_KV_PRESENT;
  chunk->restorer = NULL;
  store->counters.n_recomputed++;
  llm_kv_chunk_queue (store, chunk, TRUE);
}

static guint8 *
get_part (LlmKvStore *store,
          LlmKvForm   form,
          guint8     *data,
          guint       layer,
          guint       head,
          LlkKvPart   part)
{
  LlkKvFormat format = LLM_KV_FORM_FORMAT (form);

  return data + store->shape.offsets[form][layer]
         + head * llm_kv_store_head_bytes (store, format, layer)
         + (part == LLK_KV_VALUES ? llm_kv_store_part_bytes (store, format, layer, LLK_KV_KEYS)
                                  : 0);
}

guint8 *
llm_kv_chunk_part (LlmKvStore *store,
                   LlmKvChunk *chunk,
                   guint       layer,
                   guint       head,
                   LlkKvPart   part)
{
  return get_part (store, chunk->form, chunk->data, layer, head, part);
}

static void
unpack_part (LlmKvStore   *store,
             guint         layer,
             LlkKvFormat   format,
             LlkKvPart     part,
             const guint8 *from,
             void         *to,
             gboolean      to_half)
{
  store->ops->kv->unpack (format, part, store->layers[layer].head_dim, store->layout.chunk_slots,
                          from, to, to_half);
}

void
llm_kv_chunk_unpack (LlmKvStore *store,
                     LlmKvChunk *from,
                     LlmKvChunk *to,
                     guint       first,
                     guint       end)
{
  LlkKvFormat format = LLM_KV_FORM_FORMAT (from->form);

  for (guint layer = first; layer < end; layer++)
    for (guint head = 0; head < store->layers[layer].n_kv_heads; head++)
      for (LlkKvPart part = LLK_KV_KEYS; part <= LLK_KV_VALUES; part++)
        unpack_part (store, layer, format, part, llm_kv_chunk_part (store, from, layer, head, part),
                     llm_kv_chunk_part (store, to, layer, head, part),
                     store->layout.format == LLK_KV_F16);
}

LlmKvChunk *
llm_kv_chunk_copy_floats (LlmKvStore *store,
                          LlmKvChunk *from)
{
  LlmKvChunk *chunk = llm_kv_chunk_new (store);

  g_assert (from->state == LLM_KV_PRESENT);

  if (!llm_kv_chunk_allocate (store, chunk, llm_kv_store_float_form (store), LLM_KV_PRESENT))
    {
      llm_kv_chunk_unref (store, chunk);
      return NULL;
    }

  if (from->form == chunk->form)
    memcpy (chunk->data, from->data, store->shape.offsets[chunk->form][store->layout.n_layers]);
  else
    llm_kv_chunk_unpack (store, from, chunk, 0, store->layout.n_layers);
  chunk->is_rounded = from->is_rounded;
  return chunk;
}

/* Measures the error of each width on the layer's part in store->values: input of L4. */
static void
measure_errors (LlmKvStore *store,
                guint       layer,
                LlkKvPart   part)
{
  gsize head_dim = store->layers[layer].head_dim;
  gsize n = head_dim * store->layout.chunk_slots;
  double sum = 0;

  for (gsize i = 0; i < n; i++)
    sum += (double) store->values[i] * store->values[i];
  if (!(sum > 0) || !(sum < G_MAXFLOAT))
    return;

  for (LlkKvFormat format = LLK_KV_Q8; format <= LLK_KV_Q2; format++)
    {
      g_autofree guint8 *packed = g_malloc (llm_kv_store_part_bytes (store, format, layer,
                                                                      part));
      double error = 0;

      store->ops->kv->pack (format, part, head_dim, store->layout.chunk_slots, store->values, NULL,
                            packed);
      unpack_part (store, layer, format, part, packed, store->values_again, FALSE);
      for (gsize i = 0; i < n; i++)
        {
          double difference = (double) store->values_again[i] - store->values[i];

          error += difference * difference;
        }
      store->errors[format] += (error / sum - store->errors[format]) * ERROR_WEIGHT;
    }
}

/* (nullable): of the layer's first head. */
static const float *
get_feedback (LlmKvStore *store,
              guint       layer)
{
  gsize at = 0;

  for (guint i = 0; i < layer; i++)
    at += (gsize) store->layers[i].n_kv_heads * store->layers[i].head_dim;
  return store->feedback != NULL ? store->feedback + at * LLK_KV_FEEDBACK : NULL;
}

static void
pack_layer (LlmKvStore *store,
            LlmKvChunk *chunk,
            guint       layer,
            LlmKvForm   form,
            guint8     *data)
{
  LlkKvFormat from = LLM_KV_FORM_FORMAT (chunk->form);
  LlkKvFormat to = LLM_KV_FORM_FORMAT (form);
  const float *feedback = get_feedback (store, layer);
  gsize head_dim = store->layers[layer].head_dim;

  for (guint head = 0; head < store->layers[layer].n_kv_heads; head++)
    for (LlkKvPart part = LLK_KV_KEYS; part <= LLK_KV_VALUES; part++)
      {
        unpack_part (store, layer, from, part, llm_kv_chunk_part (store, chunk, layer, head, part),
                     store->values, FALSE);
        store->ops->kv->pack (to, part, head_dim, store->layout.chunk_slots, store->values,
                              feedback != NULL ? feedback + head * head_dim * LLK_KV_FEEDBACK
                                               : NULL,
                              get_part (store, form, data, layer, head, part));
      }
}

/* One head of one layer of a chunk is enough; another one each time. */
static void
sample_errors (LlmKvStore *store,
               LlmKvChunk *chunk,
               LlmKvForm   form)
{
  guint layer = store->n_errors % store->layout.n_layers;
  guint head = store->n_errors % store->layers[layer].n_kv_heads;

  store->n_errors++;
  if (!llm_kv_chunk_is_float (chunk) || llm_kv_store_layer_bytes (store, form, layer) == 0)
    return;

  for (LlkKvPart part = LLK_KV_KEYS; part <= LLK_KV_VALUES; part++)
    {
      unpack_part (store, layer, LLM_KV_FORM_FORMAT (chunk->form), part,
                   llm_kv_chunk_part (store, chunk, layer, head, part), store->values, FALSE);
      measure_errors (store, layer, part);
    }
}

guint64
llm_kv_content_in_form (guint64   content,
                        LlmKvForm form)
{
  const gint32 words[2] = { (gint32) form, 0 };

  return content != 0 ? llm_kv_hash_tokens (content, words, G_N_ELEMENTS (words)) : 0;
}

static gboolean
changes_format (const LlmKvChunk *chunk,
                LlmKvForm         form)
{
  return LLM_KV_FORM_FORMAT (form) != LLM_KV_FORM_FORMAT (chunk->form);
}

/* (nullable): the chunk's bytes, converted to another form. */
static guint8 *
pack (LlmKvStore *store,
      LlmKvChunk *chunk,
      LlmKvForm   form,
      gboolean   *has_memory)
{
  gboolean is_packed = changes_format (chunk, form);
  guint8 *data;

  g_assert (chunk->state == LLM_KV_PRESENT);
  g_assert (LLM_KV_FORM_FORMAT (form) >= LLM_KV_FORM_FORMAT (chunk->form));
  g_assert (LLM_KV_FORM_IS_BEHIND (form) || !LLM_KV_FORM_IS_BEHIND (chunk->form));

  *has_memory = take_memory (store, form, &data);
  if (!*has_memory)
    return NULL;
  for (guint layer = 0; layer < store->layout.n_layers; layer++)
    {
      gsize bytes = llm_kv_store_layer_bytes (store, form, layer);

      if (bytes > 0 && is_packed)
        pack_layer (store, chunk, layer, form, data);
      else if (bytes > 0)
        memcpy (data + store->shape.offsets[form][layer],
                chunk->data + store->shape.offsets[chunk->form][layer], bytes);
    }
  if (is_packed)
    {
      sample_errors (store, chunk, form);
      store->counters.n_packed++;
    }
  return data;
}

gboolean
llm_kv_chunk_pack (LlmKvStore *store,
                   LlmKvChunk *chunk,
                   LlmKvForm   form)
{
  gboolean has_memory;
  guint8 *data;

  g_assert (chunk->n_pins == 0);

  data = pack (store, chunk, form, &has_memory);
  if (!has_memory)
    return FALSE;

  give_memory (store, chunk->form, chunk->data);
  chunk->is_rounded |= changes_format (chunk, form);
  chunk->content = llm_kv_content_in_form (chunk->content, form);
  chunk->form = form;
  chunk->data = data;
  llm_kv_chunk_queue (store, chunk, FALSE);
  return TRUE;
}

LlmKvChunk *
llm_kv_chunk_pack_copy (LlmKvStore *store,
                        LlmKvChunk *from,
                        LlmKvForm   form)
{
  gboolean has_memory;
  guint8 *data = pack (store, from, form, &has_memory);
  LlmKvChunk *chunk;

  if (!has_memory)
    return NULL;

  chunk = llm_kv_chunk_new (store);
  chunk->state = LLM_KV_PRESENT;
  chunk->form = form;
  chunk->data = data;
  chunk->is_rounded = from->is_rounded || changes_format (from, form);
  chunk->content = llm_kv_content_in_form (from->content, form);
  llm_kv_chunk_set_narrow (store, chunk, from->is_narrow);
  return chunk;
}

void
llm_kv_chunk_poison (LlmKvStore *store,
                     LlmKvChunk *chunk,
                     guint       first,
                     guint       first_layer,
                     guint       end_layer)
{
#ifdef LLM_POISON
  const LlmKvLayout *layout = &store->layout;
  gsize value_bytes = llk_kv_bits (layout->format) / 8;
  gsize n_left = layout->chunk_slots - first;

  g_assert (llm_kv_chunk_is_float (chunk));

  for (guint layer = first_layer; layer < end_layer; layer++)
    for (guint head = 0; head < store->layers[layer].n_kv_heads; head++)
      {
        gsize head_dim = store->layers[layer].head_dim;
        guint8 *k = llm_kv_chunk_part (store, chunk, layer, head, LLK_KV_KEYS);
        guint8 *v = llm_kv_chunk_part (store, chunk, layer, head, LLK_KV_VALUES);

        for (gsize d = 0; d < head_dim; d++)
          memset (k + (d * layout->chunk_slots + first) * value_bytes, POISON,
                  n_left * value_bytes);
        memset (v + first * head_dim * value_bytes, POISON, n_left * head_dim * value_bytes);
      }
#endif
}
