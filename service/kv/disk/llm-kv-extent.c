/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/disk/llm-kv-extent.h"

#include <math.h>
#include <string.h>

#include <xxhash.h>

#include "kernels/llk-attention.h"

#define MAGIC "LLMKVEXT"
/* 2: there are 3 bits, and what numbers of forms mean has changed. 3: parts are whole sectors. */
#define VERSION 3
/* A group may be as large as one read request. */
#define GROUP_BYTES LLM_DISK_MAX_BYTES

/* The beginning of a file; numbers are little-endian. */
typedef struct
{
  char magic[8];
  guint32 version;
  guint32 header_bytes;
  guint64 checksum;
  guint64 identity;
  guint64 file_bytes;
  guint32 chunk_slots;
  guint32 n_layers;
  guint32 n_groups;
  guint32 n_chunks;
} Header;

typedef union
{
  float value;
  guint32 bits;          /* that is swapped on a big-endian machine */
} Float;

/* A chunk, in front of its checksums. */
typedef struct
{
  guint64 hash;
  guint64 bytes;
  guint32 number;
  Float density;
  Float n_rows;
  guint8 form;
  guint8 is_dead;
  guint16 zero;
} Chunk;

G_STATIC_ASSERT (sizeof (Header) == 56 && sizeof (Chunk) == 32);

static guint64
round_up (guint64 n,
          guint64 unit)
{
  return (n + unit - 1) / unit * unit;
}

static gsize
get_chunks_at (guint n_groups)
{
  return (gsize) round_up (sizeof (Header) + (guint64) n_groups * sizeof (guint32), sizeof (guint64));
}

static gsize
get_chunk_bytes (guint n_groups)
{
  return sizeof (Chunk) + n_groups * sizeof (guint64);
}

static gsize
get_header_bytes (guint n_groups,
                  guint n_chunks)
{
  return (gsize) round_up (get_chunks_at (n_groups) + n_chunks * get_chunk_bytes (n_groups),
                           LLM_DISK_BLOCK);
}

static gboolean
is_form (const LlmKvShape *shape,
         guint             form)
{
  return form < LLM_KV_N_FORMS && shape->offsets[form] != NULL;
}

/* Allocates it for the given counts. */
static LlmKvExtent *
allocate (guint n_groups,
          guint n_chunks)
{
  LlmKvExtent *self = g_rc_box_new0 (LlmKvExtent);

  self->n_groups = n_groups;
  self->n_chunks = n_chunks;
  self->header_bytes = get_header_bytes (n_groups, n_chunks);
  self->records = g_new0 (LlmKvRecord, n_chunks);
  self->dead = g_new0 (guint8, n_chunks);
  self->checksums = g_new0 (guint64, (gsize) n_chunks * n_groups);
  return self;
}

/* Whether all parts begin and end at whole sectors, if a group ends at this layer. */
static gboolean
is_border (const LlmKvShape *shape,
           guint             layer)
{
  return layer == shape->n_layers || layer % MAX (shape->sector_layers, 1) == 0;
}

/* Computes where the areas are, from groups and records. */
static void
place (LlmKvExtent      *self,
       const LlmKvShape *shape)
{
  guint64 at = self->header_bytes;

  for (guint i = 0; i < self->n_groups; i++)
    {
      self->group_offsets[i] = at;
      for (guint j = 0; j < self->n_chunks; j++)
        at += llm_kv_extent_get_part (self, shape, j, i, NULL);
      at = round_up (at, LLM_DISK_BLOCK);
    }
  self->group_offsets[self->n_groups] = at;
  self->file_bytes = at;
}

LlmKvExtent *
llm_kv_extent_new (const LlmKvShape  *shape,
                   const LlmKvRecord *records,
                   guint              n)
{
  LlmKvExtent *self;
  guint64 bytes = 0;
  guint n_groups, n_steps, step;

  g_return_val_if_fail (n > 0 && n <= LLM_KV_EXTENT_CHUNKS, NULL);

  for (guint i = 0; i < n; i++)
    {
      g_return_val_if_fail (is_form (shape, records[i].form), NULL);
      bytes += shape->offsets[records[i].form][shape->n_layers];
    }
  step = MAX (shape->sector_layers, 1);
  n_steps = (shape->n_layers + step - 1) / step;
  n_groups = (guint) CLAMP (bytes / GROUP_BYTES, 1, MIN (n_steps, LLM_KV_EXTENT_GROUPS));

  self = allocate (n_groups, n);
  for (guint i = 0; i < n_groups; i++)
    self->group_ends[i] = MIN ((guint) ((guint64) n_steps * (i + 1) / n_groups) * step,
                               shape->n_layers);
  memcpy (self->records, records, n * sizeof *records);
  place (self, shape);
  return self;
}

static void
clear (gpointer data)
{
  LlmKvExtent *self = data;

  g_free (self->records);
  g_free (self->dead);
  g_free (self->checksums);
}

void
llm_kv_extent_unref (LlmKvExtent *self)
{
  if (self != NULL)
    g_rc_box_release_full (self, clear);
}

static guint64
hash_header (const guint8 *bytes,
             gsize         length)
{
  g_autofree guint8 *copy = g_memdup2 (bytes, length);

  memset (copy + G_STRUCT_OFFSET (Header, checksum), 0, sizeof (guint64));
  return XXH3_64bits (copy, length);
}

gsize
llm_kv_extent_peek (const guint8 *bytes,
                    gsize         length)
{
  Header header;
  guint header_bytes;

  if (length < LLM_KV_EXTENT_MIN_BYTES)
    return 0;
  memcpy (&header, bytes, sizeof header);
  if (memcmp (header.magic, MAGIC, sizeof header.magic) != 0
      || header.version != GUINT32_TO_LE (VERSION))
    return 0;
  header_bytes = GUINT32_FROM_LE (header.header_bytes);
  if (header_bytes < LLM_KV_EXTENT_MIN_BYTES || header_bytes % LLM_DISK_BLOCK != 0
      || header_bytes > get_header_bytes (LLM_KV_EXTENT_GROUPS, LLM_KV_EXTENT_CHUNKS))
    return 0;
  return header_bytes;
}

static gboolean
parse_groups (LlmKvExtent      *self,
              const LlmKvShape *shape,
              const guint8     *bytes)
{
  guint last = 0;

  for (guint i = 0; i < self->n_groups; i++)
    {
      guint32 end;

      memcpy (&end, bytes + i * sizeof end, sizeof end);
      end = GUINT32_FROM_LE (end);
      if (end <= last || end > shape->n_layers || !is_border (shape, end))
        return FALSE;
      self->group_ends[i] = last = end;
    }
  return last == shape->n_layers;
}

static gboolean
parse_chunk (LlmKvExtent      *self,
             const LlmKvShape *shape,
             guint             chunk,
             const guint8     *bytes)
{
  LlmKvRecord *record = &self->records[chunk];
  guint64 *checksums = self->checksums + (gsize) chunk * self->n_groups;
  Chunk stored;

  memcpy (&stored, bytes, sizeof stored);
  stored.density.bits = GUINT32_FROM_LE (stored.density.bits);
  stored.n_rows.bits = GUINT32_FROM_LE (stored.n_rows.bits);
  *record = (LlmKvRecord) {
    .hash = GUINT64_FROM_LE (stored.hash),
    .number = GUINT32_FROM_LE (stored.number),
    .density = stored.density.value,
    .n_rows = stored.n_rows.value,
    .form = stored.form,
  };
  self->dead[chunk] = stored.is_dead;
  /* the next chunk's number must be valid too */
  if (!is_form (shape, stored.form) || stored.is_dead > 1 || record->number == G_MAXUINT
      || !isfinite (record->density) || record->density < 0 || !isfinite (record->n_rows)
      || record->n_rows < 0
      || GUINT64_FROM_LE (stored.bytes) != shape->offsets[stored.form][shape->n_layers])
    return FALSE;
  memcpy (checksums, bytes + sizeof stored, self->n_groups * sizeof *checksums);
  for (guint i = 0; i < self->n_groups; i++)
    checksums[i] = GUINT64_FROM_LE (checksums[i]);
  return TRUE;
}

LlmKvExtent *
llm_kv_extent_parse (const guint8      *bytes,
                     gsize              length,
                     guint64            file_bytes,
                     const LlmKvShape  *shape,
                     const char       **reason)
{
  g_autoptr(LlmKvExtent) self = NULL;
  gsize header_bytes = llm_kv_extent_peek (bytes, length);
  guint n_groups, n_chunks;
  Header header;

  *reason = "it is not complete, or of another version";
  if (header_bytes == 0 || header_bytes > length)
    return NULL;
  *reason = "its header is damaged";
  memcpy (&header, bytes, sizeof header);
  if (hash_header (bytes, header_bytes) != GUINT64_FROM_LE (header.checksum))
    return NULL;
  *reason = "it belongs to another model or other settings";
  if (GUINT64_FROM_LE (header.identity) != shape->identity
      || GUINT32_FROM_LE (header.chunk_slots) != shape->chunk_slots
      || GUINT32_FROM_LE (header.n_layers) != shape->n_layers)
    return NULL;

  /* Damage does not pass the checksums; only a file that was made on purpose fails here. */
  *reason = "its header contradicts itself";
  n_groups = GUINT32_FROM_LE (header.n_groups);
  n_chunks = GUINT32_FROM_LE (header.n_chunks);
  if (n_groups < 1 || n_groups > LLM_KV_EXTENT_GROUPS || n_chunks < 1 ||
      n_chunks > LLM_KV_EXTENT_CHUNKS || get_header_bytes (n_groups, n_chunks) != header_bytes)
    return NULL;
  self = allocate (n_groups, n_chunks);
  if (!parse_groups (self, shape, bytes + sizeof (Header)))
    return NULL;
  for (guint i = 0; i < n_chunks; i++)
    if (!parse_chunk (self, shape, i,
                      bytes + get_chunks_at (n_groups) + i * get_chunk_bytes (n_groups)))
      return NULL;
  place (self, shape);
  if (GUINT64_FROM_LE (header.file_bytes) != self->file_bytes)
    return NULL;
  *reason = "its length is wrong";
  if (file_bytes != self->file_bytes)
    return NULL;
  *reason = NULL;
  return g_steal_pointer (&self);
}

gboolean
llm_kv_extent_summarize (const guint8       *bytes,
                         gsize               length,
                         LlmKvExtentSummary *summary)
{
  gsize header_bytes = llm_kv_extent_peek (bytes, length);
  guint n_groups;
  Header header;

  if (header_bytes == 0 || header_bytes > length)
    return FALSE;
  memcpy (&header, bytes, sizeof header);
  n_groups = GUINT32_FROM_LE (header.n_groups);
  summary->identity = GUINT64_FROM_LE (header.identity);
  summary->chunk_slots = GUINT32_FROM_LE (header.chunk_slots);
  summary->n_chunks = GUINT32_FROM_LE (header.n_chunks);
  if (hash_header (bytes, header_bytes) != GUINT64_FROM_LE (header.checksum)
      || summary->chunk_slots < 1 || summary->chunk_slots > LLK_ATTENTION_MAX_SLOTS
      || n_groups < 1 || n_groups > LLM_KV_EXTENT_GROUPS
      || summary->n_chunks < 1 || summary->n_chunks > LLM_KV_EXTENT_CHUNKS
      || get_header_bytes (n_groups, summary->n_chunks) != header_bytes)
    return FALSE;
  for (guint i = 0; i < summary->n_chunks; i++)
    {
      Chunk stored;

      memcpy (&stored, bytes + get_chunks_at (n_groups) + i * get_chunk_bytes (n_groups),
              sizeof stored);
      if (stored.form >= LLM_KV_N_FORMS)
        return FALSE;
      summary->chunks[i] = (LlmKvExtentChunk) {
        .number = GUINT32_FROM_LE (stored.number),
        .bytes = GUINT64_FROM_LE (stored.bytes),
        .format = LLM_KV_FORM_FORMAT (stored.form),
        .is_dead = stored.is_dead != 0,
      };
    }
  return TRUE;
}

void
llm_kv_extent_print (const LlmKvExtent *self,
                     const LlmKvShape  *shape,
                     const guint8      *dead,
                     guint8            *bytes)
{
  Header header = {
    .magic = MAGIC,
    .version = GUINT32_TO_LE (VERSION),
    .header_bytes = GUINT32_TO_LE ((guint32) self->header_bytes),
    .identity = GUINT64_TO_LE (shape->identity),
    .file_bytes = GUINT64_TO_LE (self->file_bytes),
    .chunk_slots = GUINT32_TO_LE (shape->chunk_slots),
    .n_layers = GUINT32_TO_LE (shape->n_layers),
    .n_groups = GUINT32_TO_LE (self->n_groups),
    .n_chunks = GUINT32_TO_LE (self->n_chunks),
  };

  memset (bytes, 0, self->header_bytes);
  for (guint i = 0; i < self->n_groups; i++)
    {
      guint32 end = GUINT32_TO_LE (self->group_ends[i]);

      memcpy (bytes + sizeof header + i * sizeof end, &end, sizeof end);
    }
  for (guint i = 0; i < self->n_chunks; i++)
    {
      guint8 *at = bytes + get_chunks_at (self->n_groups) + i * get_chunk_bytes (self->n_groups);
      const LlmKvRecord *record = &self->records[i];
      Chunk chunk = {
        .hash = GUINT64_TO_LE (record->hash),
        .bytes = GUINT64_TO_LE (shape->offsets[record->form][shape->n_layers]),
        .number = GUINT32_TO_LE (record->number),
        .density = { record->density },
        .n_rows = { record->n_rows },
        .form = record->form,
        .is_dead = dead != NULL ? dead[i] : 0,
      };

      chunk.density.bits = GUINT32_TO_LE (chunk.density.bits);
      chunk.n_rows.bits = GUINT32_TO_LE (chunk.n_rows.bits);
      memcpy (at, &chunk, sizeof chunk);
      for (guint j = 0; j < self->n_groups; j++)
        {
          guint64 sum = GUINT64_TO_LE (self->checksums[(gsize) i * self->n_groups + j]);

          memcpy (at + sizeof chunk + j * sizeof sum, &sum, sizeof sum);
        }
    }
  memcpy (bytes, &header, sizeof header);
  header.checksum = GUINT64_TO_LE (XXH3_64bits (bytes, self->header_bytes));
  memcpy (bytes, &header, sizeof header);
}

guint64
llm_kv_extent_compute_checksum (const LlmKvExtent *self,
                                guint              chunk,
                                guint              group,
                                const guint8      *bytes,
                                gsize              n_bytes)
{
  return XXH3_64bits_withSeed (bytes, n_bytes, self->records[chunk].hash + group);
}

guint64
llm_kv_hash_tokens (guint64       hash,
                    const gint32 *tokens,
                    guint         n)
{
  return XXH3_64bits_withSeed (tokens, n * sizeof *tokens, hash);
}

LlmKvShape *
llm_kv_shape_copy (const LlmKvShape *shape)
{
  gsize n = shape->n_layers + 1;
  LlmKvShape *self = g_rc_box_alloc (sizeof *self + LLM_KV_N_FORMS * n * sizeof (gsize));
  gsize *at = (gsize *) (self + 1);

  *self = *shape;
  for (guint i = 0; i < LLM_KV_N_FORMS; i++)
    if (shape->offsets[i] != NULL)
      self->offsets[i] = memcpy (at + i * n, shape->offsets[i], n * sizeof *at);
  return self;
}
