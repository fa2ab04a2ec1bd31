/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-repacked-private.h"

#include <string.h>
#include <xxhash.h>

#include "io/llm-cache-folder.h"
#include "kernels/llk-channels.h"

#define FORMAT_VERSION 5
#define BYTE_ORDER_MARK 0x01020304u
#define SEGMENT_ALIGNMENT ((guint64) 4096)
#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

static const char magic[8] = "llmprep";

typedef struct
{
  char magic[8];
  guint32 byte_order;
  guint32 version;
  guint64 layout;
  guint64 levels;
  guint64 file_bytes;
  guint64 data_offset;
  guint64 bytes;
  guint32 n_matrices;
  guint32 n_pieces;
  guint64 source_hash;
  guint64 source_device;
  guint64 source_inode;
  guint64 source_size;
  gint64 source_modified_s;
  gint64 source_modified_ns;
  /* fields from here on are not part of the name: a changed model replaces the file */
  gint64 source_changed_s;
  gint64 source_changed_ns;
  guint64 source_weights;
  /* fields from here on are known only after the matrices are packed */
  gint64 modified_s;
  guint64 boot;
  guint64 checksum;   /* of the head, with this field 0 */
} Header;

typedef struct
{
  guint32 op;
  guint32 layer;
  guint32 segment;
  guint32 type;
  guint32 in_first;
  guint32 n_in;
  guint32 out_first;
  guint32 n_out;
  guint64 offset;
  guint64 panel_bytes;
} TableEntry;

static guint64
round_up (guint64 value,
          guint64 multiple)
{
  return (value + multiple - 1) / multiple * multiple;
}

/* --- the plan --- */

/* A hash of what llk_panel_pack() makes of fixed rows: another layout gives another number, without
 * a version number to maintain. Two blocks in three rows show order, scales and padding. */
static guint64
hash_layout (LlkType         type,
             LlmRepackedForm form)
{
  gsize n_in = 2 * llk_type_block_size (type);
  gsize row_bytes = 2 * llk_type_block_bytes (type);
  gsize panel_bytes = llk_panel_bytes (type, 0, n_in);
  g_autofree guint8 *rows = g_malloc (3 * row_bytes);
  guint8 *panel = g_aligned_alloc0 (1, panel_bytes, LLK_PANEL_ALIGNMENT);
  guint32 state = 1;
  guint64 hash;

  for (gsize i = 0; i < 3 * row_bytes; i++)
    {
      state = state * 1664525u + 1013904223u;
      rows[i] = (guint8) (state >> 24);
    }
  llk_panel_pack (type, rows, row_bytes, n_in, 3, 0, 0, n_in, panel);
  hash = form == LLM_REPACKED_CHANNELS ? llm_repacked_hash_channels (type, panel, n_in)
                                       : XXH3_64bits_withSeed (panel, panel_bytes, type);
  g_aligned_free (panel);
  return hash;
}

/* Likewise of what llk_w8_pack() makes. */
static guint64
hash_w8_layout (void)
{
  enum { N_IN = 2 * LLK_W8_INPUTS };
  const guint16 hot_of[N_IN] = { [7] = 1 };
  const LlkW8Matrix of = { N_IN, 3, 1, NULL, hot_of };
  gsize bytes = llk_w8_panel_bytes (N_IN, 1);
  int8_t *panel = g_aligned_alloc0 (1, bytes, LLK_PANEL_ALIGNMENT);
  float rows[3 * N_IN];
  guint64 hash;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    rows[i] = (float) (i * 37 % 255) - 127;
  llk_w8_pack (&of, rows, N_IN, 3, panel);
  hash = XXH3_64bits (panel, bytes);
  g_aligned_free (panel);
  return hash;
}

/* As hot inputs say, where it is of a site. */
static LlmRepackedMatrix
make_w8 (const LlmCalibration  *calibration,
         LlmRepackedMatrix      matrix)
{
  const LlmW8Site *site =
    &calibration->sites[llm_w8_site_at (matrix.layer, llm_w8_kind_of (matrix.op))];
  guint n_hot;

  matrix.w8.hot_of = llm_w8_cut_hot (site, matrix.shape.in_first, matrix.shape.in_count, &n_hot);
  matrix.w8.n_hot = n_hot;
  matrix.w8.n_in = matrix.shape.in_count;
  matrix.w8.n_out = matrix.shape.out_count;
  matrix.panel_bytes = llk_w8_panel_bytes (matrix.w8.n_in, n_hot);
  return matrix;
}

static void
add_matrix (LlmRepackedPlan       *self,
            const LlmCalibration  *calibration,
            LlmOperator            op,
            guint                  layer,
            guint                  segment,
            const LlmTensorPart   *part,
            const LlmSegmentShape *shape)
{
  LlmRepackedMatrix matrix = {
    .op = op,
    .layer = layer,
    .segment = segment,
    .part = *part,
    .shape = *shape,
    .offset = self->bytes,
    .panel_bytes = llk_panel_bytes (part->type, shape->in_first, shape->in_count),
    .n_panels = (shape->out_count + LLK_PANEL_OUTPUTS - 1) / LLK_PANEL_OUTPUTS,
  };

  if (calibration != NULL)
    matrix = make_w8 (calibration, matrix);
  if (self->form == LLM_REPACKED_CHANNELS)
    matrix.panel_bytes = llm_repacked_get_heads_bytes (part, shape);
  self->bytes += (guint64) matrix.n_panels * matrix.panel_bytes;
  g_array_append_val (self->matrices, matrix);
  self->places[(layer * LLM_N_OPS + op) * self->n_segments + segment] = self->matrices->len;
}

/* Experts are multiplied one at a time: a panel must not hold rows of two of them. */
static gboolean
is_whole_panels (const LlmHparams    *hparams,
                 LlmOperator          op,
                 const LlmTensorPart *part)
{
  if (llm_operator_is_of_experts (op))
    return part->n_out / hparams->experts.n % LLK_PANEL_OUTPUTS == 0;
  switch (op)
    {
    case LLM_OP_STREAM_UNPROJECTION:
      return hparams->n_embd % LLK_PANEL_OUTPUTS == 0;
    case LLM_OP_QUERY_ABSORB:
      return hparams->latent.kv_rank % LLK_PANEL_OUTPUTS == 0;
    case LLM_OP_VALUE_UP:
      return hparams->latent.value_dim % LLK_PANEL_OUTPUTS == 0;
    default:
      return TRUE;
    }
}

/* With a calibration, only what is at a site with a scale. */
static gboolean
is_packed (const LlmRepackedPlan *self,
           const LlmCalibration  *calibration,
           LlmOperator            op,
           guint                  layer)
{
  LlmW8Kind kind = llm_w8_kind_of (op);

  if (!llm_operator_is_matrix (op) || llm_operator_is_looked_up (op))
    return FALSE;
  if (self->form == LLM_REPACKED_CHANNELS)
    return llm_input_of (op) != LLM_INPUT_NONE;
  return calibration == NULL
         || (kind != LLM_W8_N_KINDS && calibration->sites[llm_w8_site_at (layer, kind)].scale > 0);
}

/* Adds the part of @segment: operators before the layers, layer after layer, then those after the
 * last; not embeddings, which are read by rows from the model file. */
static gboolean
add_segment (LlmRepackedPlan     *self,
             const LlmHparams    *hparams,
             const LlmSubModels  *sub_models,
             const LlmCalibration *calibration,
             guint                segment,
             const LlmTensorPart *embedding,
             GError             **error)
{
  self->bytes = round_up (self->bytes, SEGMENT_ALIGNMENT);
  for (guint place = 0; place <= hparams->n_layers + 1; place++)
    for (guint op = 0; op < LLM_N_OPS; op++)
      {
        guint own_layer = llm_operator_is_layered (op) ? place - 1 : 0;
        LlmSegmentShape shape;
        LlmTensorPart part;

        if (!llm_operator_is_at (hparams, op, place) || !is_packed (self, calibration, op, own_layer))
          continue;
        if (!llm_operator_find (self->gguf, hparams, op, own_layer, &part, error))
          return FALSE;
        shape = llm_sub_models_get_shape (sub_models, hparams, op, own_layer, segment);
        if (part.tensor == NULL || shape.in_count == 0 || shape.out_count == 0
            || !is_whole_panels (hparams, op, &part)
            || (self->form == LLM_REPACKED_CHANNELS && !llk_channels_have (part.type)))
          continue;
        add_matrix (self, calibration, op, own_layer, segment, &part, &shape);
        if (segment == 0 && part.tensor != embedding->tensor)
          {
            LlmRepackedRows rows = { part.offset, (guint64) part.row_bytes * part.n_out };

            g_array_append_val (self->rows, rows);
          }
      }
  return TRUE;
}

static gboolean
add_segments (LlmRepackedPlan     *self,
              const LlmHparams    *hparams,
              const LlmSubModels  *sub_models,
              const LlmCalibration *calibration,
              GError             **error)
{
  LlmTensorPart embedding;

  if (!llm_operator_find (self->gguf, hparams, LLM_OP_TOKEN_EMBEDDING, 0, &embedding, error))
    return FALSE;
  for (guint segment = 0; segment < sub_models->n_levels; segment++)
    if (!add_segment (self, hparams, sub_models, calibration, segment, &embedding, error))
      return FALSE;
  return TRUE;
}

static guint64
hash_levels (const LlmSubModels *sub_models)
{
  gsize bytes = (gsize) sub_models->n_layers * sub_models->n_levels * sizeof (guint);
  guint64 parts[] = {
    sub_models->n_levels,
    XXH3_64bits (sub_models->percent, sub_models->n_levels),
    XXH3_64bits (sub_models->n_groups, bytes),
    XXH3_64bits (sub_models->n_channels, bytes),
  };

  return XXH3_64bits (parts, sizeof parts);
}

static guint64
hash_layouts (const LlmRepackedPlan *self,
              const LlmHparams      *hparams,
              const LlmCalibration  *calibration)
{
  guint64 hash = FORMAT_VERSION;
  gint64 last = -1;

  if (calibration != NULL)
    {
      guint64 parts[] = { hash, hash_w8_layout (), llm_calibration_hash (calibration, hparams) };

      return XXH3_64bits (parts, sizeof parts);
    }
  for (guint i = 0; i < self->matrices->len; i++)
    {
      LlkType type = g_array_index (self->matrices, LlmRepackedMatrix, i).part.type;

      if (type != last)
        {
          guint64 parts[] = { hash, hash_layout (type, self->form) };

          hash = XXH3_64bits (parts, sizeof parts);
        }
      last = type;
    }
  return hash;
}

static gsize
get_head_bytes (const LlmRepackedPlan *self)
{
  return sizeof (Header) + self->matrices->len * sizeof (TableEntry) +
         self->n_pieces * sizeof (guint64);
}

static void
clear_matrix (gpointer matrix)
{
  g_free ((gpointer) ((LlmRepackedMatrix *) matrix)->w8.hot_of);
}

static LlmRepackedPlan *
new_plan (LlmGguf              *gguf,
          const LlmHparams     *hparams,
          const LlmSubModels   *sub_models,
          const LlmCalibration *calibration,
          LlmRepackedForm       form,
          GError              **error)
{
  g_autoptr(LlmRepackedPlan) self = g_new0 (LlmRepackedPlan, 1);
  g_autoptr(LlmSubModels) whole = NULL;

  if (sub_models == NULL)
    sub_models = whole = llm_sub_models_new_whole (hparams);
  g_atomic_ref_count_init (&self->ref_count);
  self->gguf = llm_gguf_ref (gguf);
  self->form = form;
  self->bundles = g_array_new (FALSE, FALSE, sizeof (LlmRepackedBundle));
  self->matrices = g_array_new (FALSE, FALSE, sizeof (LlmRepackedMatrix));
  g_array_set_clear_func (self->matrices, clear_matrix);
  self->rows = g_array_new (FALSE, FALSE, sizeof (LlmRepackedRows));
  self->n_segments = sub_models->n_levels;
  self->places = g_new0 (guint, (gsize) hparams->n_layers * LLM_N_OPS * self->n_segments);
  if (!add_segments (self, hparams, sub_models, calibration, error))
    return NULL;
  if (form == LLM_REPACKED_CHANNELS)
    llm_repacked_plan_bundle (self);

  self->n_pieces = (guint) ((self->bytes + LLM_REPACKED_PIECE - 1) / LLM_REPACKED_PIECE);
  self->data_offset = round_up (get_head_bytes (self), LLM_FILE_MAP_HUGE);
  self->file_bytes = self->data_offset + self->bytes;
  self->layout = hash_layouts (self, hparams, calibration);
  self->levels = hash_levels (sub_models);
  self->source_weights = llm_gguf_get_weights_hash (gguf);
  if (!llm_file_map_get_identity (gguf->map, &self->source))
    memset (&self->source, 0, sizeof self->source);
  return g_steal_pointer (&self);
}

LlmRepackedPlan *
llm_repacked_plan_new (LlmGguf              *gguf,
                       const LlmHparams     *hparams,
                       const LlmSubModels   *sub_models,
                       const LlmCalibration *calibration,
                       GError              **error)
{
  return new_plan (gguf, hparams, sub_models, calibration,
                   calibration != NULL ? LLM_REPACKED_W8 : LLM_REPACKED_PANELS, error);
}

LlmRepackedPlan *
llm_repacked_plan_new_channels (LlmGguf             *gguf,
                                const LlmHparams    *hparams,
                                const LlmSubModels  *sub_models,
                                GError             **error)
{
  return new_plan (gguf, hparams, sub_models, NULL, LLM_REPACKED_CHANNELS, error);
}

LlmRepackedPlan *
llm_repacked_plan_ref (LlmRepackedPlan *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_repacked_plan_unref (LlmRepackedPlan *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  llm_gguf_unref (self->gguf);
  g_array_unref (self->matrices);
  g_array_unref (self->bundles);
  g_array_unref (self->rows);
  g_free (self->places);
  g_free (self);
}

const LlmRepackedMatrix *
llm_repacked_plan_find (const LlmRepackedPlan *self,
                        LlmOperator            op,
                        guint                  layer,
                        guint                  segment)
{
  guint place = self->places[(layer * LLM_N_OPS + op) * self->n_segments + segment];

  return place > 0 ? &g_array_index (self->matrices, LlmRepackedMatrix, place - 1) : NULL;
}

gsize
llm_repacked_plan_get_piece (const LlmRepackedPlan *self,
                             guint                  piece)
{
  return (gsize) MIN (LLM_REPACKED_PIECE, self->bytes - piece * LLM_REPACKED_PIECE);
}

/* --- the head of a file --- */

static Header
make_header (const LlmRepackedPlan *self)
{
  Header header = {
    .byte_order = BYTE_ORDER_MARK,
    .version = FORMAT_VERSION,
    .layout = self->layout,
    .levels = self->levels,
    .file_bytes = self->file_bytes,
    .data_offset = self->data_offset,
    .bytes = self->bytes,
    .n_matrices = self->matrices->len,
    .n_pieces = self->n_pieces,
    .source_hash = self->gguf->header_hash,
    .source_device = self->source.device,
    .source_inode = self->source.inode,
    .source_size = self->source.size,
    .source_modified_s = self->source.modified_s,
    .source_modified_ns = self->source.modified_ns,
    .source_changed_s = self->source.changed_s,
    .source_changed_ns = self->source.changed_ns,
    .source_weights = self->source_weights,
  };

  memcpy (header.magic, magic, sizeof magic);
  return header;
}

/* From the metadata of a model file, without its weights. */
char *
llm_repacked_plan_get_name (const LlmRepackedPlan *self)
{
  Header header = make_header (self);

  return g_strdup_printf ("%016" G_GINT64_MODIFIER "x" LLM_CACHE_SUFFIX,
                          (guint64) XXH3_64bits (&header,
                                                 G_STRUCT_OFFSET (Header, source_changed_s)));
}

guint64
llm_repacked_get_boot (void)
{
  g_autofree char *id = NULL;
  gsize length;

  /* If it can't be read, every start counts as another one. */
  if (!g_file_get_contents (BOOT_ID_PATH, &id, &length, NULL))
    return (guint64) g_get_real_time ();
  return XXH3_64bits (id, length);
}

GBytes *
llm_repacked_head_new (const LlmRepackedPlan *self,
                       const guint64         *checksums,
                       gint64                 modified_s,
                       guint64                boot)
{
  Header header = make_header (self);
  gsize size = get_head_bytes (self);
  guint8 *head = g_malloc (size);
  guint8 *at = head + sizeof header;
  guint64 parts[2];

  header.modified_s = modified_s;
  header.boot = boot;
  for (guint i = 0; i < self->matrices->len; i++, at += sizeof (TableEntry))
    {
      const LlmRepackedMatrix *matrix = &g_array_index (self->matrices, LlmRepackedMatrix, i);
      TableEntry entry = {
        .op = matrix->op,
        .layer = matrix->layer,
        .segment = matrix->segment,
        .type = matrix->part.type,
        .in_first = matrix->shape.in_first,
        .n_in = matrix->shape.in_count,
        .out_first = matrix->shape.out_first,
        .n_out = matrix->shape.out_count,
        .offset = matrix->offset,
        .panel_bytes = matrix->panel_bytes,
      };

      memcpy (at, &entry, sizeof entry);
    }
  memcpy (at, checksums, self->n_pieces * sizeof (guint64));

  parts[0] = XXH3_64bits (&header, sizeof header);
  parts[1] = XXH3_64bits (head + sizeof header, size - sizeof header);
  header.checksum = XXH3_64bits (parts, sizeof parts);
  memcpy (head, &header, sizeof header);
  return g_bytes_new_take (head, size);
}

gboolean
llm_repacked_head_check (const LlmRepackedPlan *self,
                         const guint8          *data,
                         guint64                size,
                         LlmRepackedHead       *head,
                         const char           **reason)
{
  const Header wanted = make_header (self);
  gsize head_bytes = get_head_bytes (self);
  g_autoptr(GBytes) good = NULL;
  Header header;

  *reason = "it is of another model or another version";
  if (size < sizeof header)
    return FALSE;
  memcpy (&header, data, sizeof header);
  if (memcmp (&header, &wanted, G_STRUCT_OFFSET (Header, modified_s)) != 0)
    return FALSE;

  *reason = "it is not as long as it should be";
  if (size != self->file_bytes)
    return FALSE;

  head->modified_s = header.modified_s;
  head->boot = header.boot;
  head->checksums =
    (const guint64 *) (gconstpointer) (data + head_bytes - self->n_pieces * sizeof (guint64));
  good = llm_repacked_head_new (self, head->checksums, head->modified_s, head->boot);
  *reason = memcmp (g_bytes_get_data (good, NULL), data, head_bytes) != 0 ? "its head is damaged"
                                                                          : NULL;
  return *reason == NULL;
}
