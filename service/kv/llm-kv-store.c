/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "base/llm-fail.h"
#include "kv/llm-kv-private.h"

#include "common/llmsvc-error.h"

/* More than any model has, and small enough that sizes can't overflow. */
#define MAX_LAYERS 4096
#define MAX_KV_HEADS 4096

/* Relative squared errors of each width until some were measured. */
static const double first_errors[LLK_N_KV_FORMATS] = { 0, 0, 3.5e-5, 5e-3, 0.02, 0.075 };

static gboolean
check_layout (const LlmKvLayout *layout,
              GError           **error)
{
  if (layout->kind != LLM_KV_FULL && layout->kind != LLM_KV_WINDOW)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "Context memory of kind %d is not supported: full and window are",
                     (int) layout->kind);
  if (layout->format != LLK_KV_F32 && layout->format != LLK_KV_F16)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "Context memory in format %d is not supported: only F32 and F16 are",
                     (int) layout->format);
  if (layout->n_layers < 1 || layout->n_layers > MAX_LAYERS || layout->n_kv_heads < 1
      || layout->n_kv_heads > MAX_KV_HEADS || layout->head_dim < 1
      || layout->head_dim > LLK_MAX_HEAD_DIM || layout->chunk_slots < 1
      || layout->chunk_slots > LLK_ATTENTION_MAX_SLOTS)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "Context memory for %u layers of %u heads of %u values in chunks of %u "
                     "positions is not supported: at most %u layers, %u heads, %u values, %u "
                     "positions are", layout->n_layers, layout->n_kv_heads, layout->head_dim,
                     layout->chunk_slots, MAX_LAYERS, MAX_KV_HEADS, LLK_MAX_HEAD_DIM,
                     LLK_ATTENTION_MAX_SLOTS);
  for (guint i = 0; layout->layers != NULL && i < layout->n_layers; i++)
    g_assert (layout->layers[i].n_kv_heads > 0
              && layout->layers[i].n_kv_heads <= layout->n_kv_heads
              && layout->layers[i].head_dim > 0 && layout->layers[i].head_dim <= layout->head_dim);
  if (layout->chunk_slots % LLK_ATTENTION_GROUP != 0)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "Context memory in chunks of %u positions is not supported: only multiples of "
                     "%u are", layout->chunk_slots, LLK_ATTENTION_GROUP);

  return TRUE;
}

static LlmKvLayer
get_layer (const LlmKvLayout *layout,
           guint              layer)
{
  if (layout->layers != NULL)
    return layout->layers[layer];
  return (LlmKvLayer) { layout->n_kv_heads, layout->head_dim };
}

static gsize
count_layer_bytes (const LlmKvLayout *layout,
                   LlkKvFormat        format,
                   guint              layer)
{
  LlmKvLayer shape = get_layer (layout, layer);

  return shape.n_kv_heads
         * (llk_kv_part_bytes (format, LLK_KV_KEYS, shape.head_dim, layout->chunk_slots)
            + llk_kv_part_bytes (format, LLK_KV_VALUES, shape.head_dim, layout->chunk_slots));
}

/* The number of layers whose bytes are padded to whole sectors together: chosen so that the padding
 * is less than a 32nd with 4 bits. 0 where chunks are too small for that. */
static guint
choose_sector_layers (const LlmKvLayout *layout)
{
  gsize bytes = G_MAXSIZE, n;

  for (guint i = 0; i < layout->n_layers; i++)
    bytes = MIN (bytes, count_layer_bytes (layout, LLK_KV_Q4, i));
  n = (32 * LLM_DISK_SECTOR + bytes - 1) / bytes;

  return n <= layout->n_layers ? (guint) n : 0;
}

static gsize
round_up (gsize bytes)
{
  return (bytes + LLM_DISK_SECTOR - 1) / LLM_DISK_SECTOR * LLM_DISK_SECTOR;
}

static void
measure_form (LlmKvStore *self,
              LlmKvForm   form)
{
  guint n_layers = self->layout.n_layers;
  gsize *offsets = g_new (gsize, n_layers + 1);

  offsets[0] = 0;
  for (guint end = 1; end <= n_layers; end++)
    {
      gsize at = offsets[end - 1] + llm_kv_store_layer_bytes (self, form, end - 1);

      if (self->shape.sector_layers > 0
          && (end % self->shape.sector_layers == 0 || end == n_layers))
        at = round_up (at);
      offsets[end] = at;
    }
  self->shape.offsets[form] = offsets;
  llm_kv_arena_init (&self->arenas[form], offsets[self->layout.n_layers]);
}

/* With the sizes of measure_form(). */
static gsize
count_chunk_bytes (const LlmKvLayout *layout,
                   LlkKvFormat        format)
{
  guint sector_layers = choose_sector_layers (layout);
  gsize bytes = 0;

  for (guint end = 1; end <= layout->n_layers; end++)
    {
      bytes += count_layer_bytes (layout, format, end - 1);
      if (sector_layers > 0 && (end % sector_layers == 0 || end == layout->n_layers))
        bytes = round_up (bytes);
    }
  return bytes;
}

static void
measure_parts (LlmKvStore  *self,
               LlkKvFormat  format)
{
  for (guint layer = 0; layer < self->layout.n_layers; layer++)
    for (LlkKvPart part = LLK_KV_KEYS; part <= LLK_KV_VALUES; part++)
      self->part_bytes[layer][format][part] =
        llk_kv_part_bytes (format, part, self->layers[layer].head_dim, self->layout.chunk_slots);
}

static void
measure_forms (LlmKvStore *self)
{
  self->shape.sector_layers = choose_sector_layers (&self->layout);
  for (LlkKvFormat format = LLK_KV_F32; format < LLK_N_KV_FORMATS; format++)
    {
      if (format != self->layout.format && !llk_kv_is_packed (format))
        continue;

      measure_parts (self, format);
      measure_form (self, LLM_KV_FORM (format, FALSE));
      if (self->window > 0)
        measure_form (self, LLM_KV_FORM (format, TRUE));
    }
}

LlmKvStore *
llm_kv_store_new (const LlmKvLayout *layout,
                  const LlmKvPolicy *policy,
                  LlmLedger         *ledger,
                  GError           **error)
{
  LlmKvStore *self;

  if (!check_layout (layout, error))
    return NULL;

  self = g_new0 (LlmKvStore, 1);
  self->layout = *layout;
  self->shape.n_layers = layout->n_layers;
  self->shape.chunk_slots = layout->chunk_slots;
  self->policy = policy != NULL ? *policy : llm_kv_policy_keep;
  self->ledger = ledger != NULL ? llm_ledger_ref (ledger) : NULL;
  self->ops = llk_ops_best ();
  self->layers = g_new (LlmKvLayer, layout->n_layers);
  for (guint i = 0; i < layout->n_layers; i++)
    self->layers[i] = get_layer (layout, i);
  self->layout.layers = self->layers;
  self->part_bytes = g_malloc0_n (layout->n_layers, sizeof *self->part_bytes);
  if (layout->windows != NULL)
    {
      self->windows = g_memdup2 (layout->windows, layout->n_layers * sizeof (guint));
      for (guint i = 0; i < layout->n_layers; i++)
        self->window = MAX (self->window, self->windows[i]);
    }
  self->layout.windows = self->windows;
  if (layout->feedback != NULL)
    self->feedback = g_memdup2 (layout->feedback, llm_kv_layout_count_values (layout) / 2
                                  * LLK_KV_FEEDBACK * sizeof (float));
  self->layout.feedback = self->feedback;
  measure_forms (self);
  self->values = g_new (float, layout->head_dim * layout->chunk_slots);
  self->values_again = g_new (float, layout->head_dim * layout->chunk_slots);
  for (guint i = 0; i < LLK_N_KV_FORMATS; i++)
    self->errors[i] = first_errors[i];
  self->piece_bytes = LLM_DISK_MAX_BYTES;
  self->queue.by_bits = self->policy.order == LLM_KV_BY_BITS;
  return self;
}

void
llm_kv_store_free (LlmKvStore *self)
{
  if (self == NULL)
    return;

  while (self->n_reads > 0)
    llm_kv_store_wait (self, G_MAXINT64);
  g_assert (self->sequences.length == 0 && self->bytes == 0 && self->n_batches == 0);
  llm_kv_store_trim (self);
  for (guint i = 0; i < LLM_KV_N_FORMS; i++)
    {
      llm_kv_arena_clear (&self->arenas[i]);
      g_free ((gpointer) self->shape.offsets[i]);
    }
  g_free (self->values);
  g_free (self->values_again);
  g_free (self->layers);
  g_free (self->part_bytes);
  g_free (self->windows);
  g_free (self->feedback);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  g_free (self);
}

void
llm_kv_store_set_storage (LlmKvStore   *self,
                          LlmKvStorage *storage,
                          guint64       identity)
{
  g_return_if_fail (self->sequences.length == 0);

  self->storage = storage;
  self->shape.identity = identity;
}

guint
llm_kv_layout_get_least_ratio (const LlmKvLayout *layout)
{
  gsize least = count_chunk_bytes (layout, LLK_KV_Q2);
  gsize whole = count_chunk_bytes (layout, LLK_KV_Q8);

  return (guint) ((100 * least + whole - 1) / whole);
}

guint64
llm_kv_layout_count_values (const LlmKvLayout *layout)
{
  guint64 n = 0;

  for (guint i = 0; i < layout->n_layers; i++)
    {
      LlmKvLayer shape = get_layer (layout, i);

      n += 2 * (guint64) shape.n_kv_heads * shape.head_dim;
    }
  return n;
}

guint64
llm_kv_store_get_chunk_bytes (LlmKvStore *self,
                              LlkKvFormat format)
{
  g_return_val_if_fail (llm_kv_store_has_form (self, LLM_KV_FORM (format, FALSE)), 0);

  return self->arenas[LLM_KV_FORM (format, FALSE)].bytes;
}

/* The worst case: the last chunk has one slot left and is shared or quantized, so it is copied. */
guint64
llm_kv_store_price (LlmKvStore *self,
                    guint       n_slots)
{
  guint slots = self->layout.chunk_slots;

  if (n_slots == 0)
    return 0;

  return (1 + ((guint64) n_slots - 1 + slots - 1) / slots)
         * self->arenas[llm_kv_store_float_form (self)].bytes;
}

gboolean
llm_kv_store_has_form (LlmKvStore *self,
                       guint       form)
{
  return form < LLM_KV_N_FORMS && self->shape.offsets[form] != NULL;
}

gboolean
llm_kv_store_has_room (LlmKvStore *self,
                       guint64     bytes)
{
  if (self->ledger == NULL || bytes == 0 || llm_ledger_has_room (self->ledger, bytes))
    return TRUE;
  if (self->spare_bytes == 0)
    return FALSE;

  /* the part that comes from spare pages is counted already */
  if (bytes > self->spare_bytes ? llm_ledger_has_room (self->ledger, bytes - self->spare_bytes)
                                : llm_ledger_get_excess (self->ledger) == 0)
    return TRUE;
  llm_kv_store_trim (self);
  return llm_ledger_has_room (self->ledger, bytes);
}

guint64
llm_kv_store_trim (LlmKvStore *self)
{
  guint64 bytes = self->spare_bytes;

  for (guint i = 0; i < LLM_KV_N_FORMS; i++)
    llm_kv_arena_trim (&self->arenas[i]);
  self->spare_bytes = 0;
  if (self->ledger != NULL)
    llm_ledger_remove (self->ledger, LLM_HOLDER_KV, bytes);
  return bytes;
}

void
llm_kv_store_wait (LlmKvStore *self,
                   gint64      timeout_us)
{
  if (self->storage != NULL)
    llm_disk_poll (llm_kv_storage_get_disk (self->storage), timeout_us);
}
