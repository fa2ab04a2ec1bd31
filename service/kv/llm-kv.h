/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Context memory: what the model remembers of each sequence, as a row of
 * chunks of a fixed number of positions (L2). A chunk holds every layer's K and
 * V of its positions; forks share whole chunks and copy the last one when it
 * is written. Nothing above this folder knows formats: attention asks for views
 * of chunks and hands them to kernels.
 *
 * A slot is a place in the sequence's memory, a position is what rotary
 * embedding sees; they differ only in trees of drafted tokens.
 *
 * One thread owns store and sequences: the executor's.
 */

#pragma once

#include "base/llm-ledger.h"
#include "base/llm-status.h"

#include <gio/gio.h>

G_BEGIN_DECLS

/* What a model needs to remember. */
typedef enum
{
  LLM_KV_FULL,          /* K and V of every position */
  LLM_KV_WINDOW,        /* the same within a window plus sinks */
  LLM_KV_RECURRENT,     /* states, checkpointed at chunk borders */
  LLM_KV_HYBRID,        /* FULL layers and RECURRENT layers */
  LLM_KV_HYBRID_WINDOW, /* WINDOW layers and RECURRENT layers */
} LlmKvKind;

/* Positions in one chunk, unless configured. */
#define LLM_KV_CHUNK_SLOTS 16

typedef enum
{
  LLM_KV_F32,
  LLM_KV_F16,
} LlmKvFormat;

typedef struct
{
  LlmKvKind kind;
  LlmKvFormat format;
  guint n_layers;
  guint n_kv_heads;
  guint head_dim;
  guint chunk_slots;    /* positions in one chunk: 16 unless configured, 32, 48 or 64 */
} LlmKvLayout;

typedef struct _LlmKvStore LlmKvStore;
typedef struct _LlmKvSeq LlmKvSeq;

/* One chunk's part of one layer, head after head, @head_bytes apart. Of each
 * head, k[d * chunk_slots + s] and v[s * head_dim + d] for slot s of the chunk:
 * what kernels/llk-attention.h reads. */
typedef struct
{
  const void *k;
  const void *v;
  gsize head_bytes;
  LlmKvFormat format;
  guint first_slot;
  guint n_slots;        /* written ones */
  guint chunk_slots;    /* those it has room for */
} LlmKvView;

/* Fails with UNSUPPORTED for a kind that is not FULL or WINDOW, and for sizes
 * that attention can't compute. @ledger (nullable). */
LlmKvStore *llm_kv_store_new          (const LlmKvLayout *layout,
                                       LlmLedger         *ledger,
                                       GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* All sequences must be gone. */
void        llm_kv_store_free         (LlmKvStore        *self);
const LlmKvLayout *llm_kv_store_get_layout (LlmKvStore   *self);
guint64     llm_kv_store_get_bytes    (LlmKvStore        *self);
/* Bytes that @n_slots more slots of a sequence take at most. */
guint64     llm_kv_store_price        (LlmKvStore        *self,
                                       guint              n_slots);

LlmKvSeq   *llm_kv_seq_new            (LlmKvStore        *store);
void        llm_kv_seq_free           (LlmKvSeq          *self);
/* A sequence with the same content; chunks are shared until written. */
LlmKvSeq   *llm_kv_seq_fork           (LlmKvSeq          *self);
guint       llm_kv_seq_get_length     (LlmKvSeq          *self);
const LlmKvLayout *llm_kv_seq_get_layout (LlmKvSeq       *self);
/* Bytes of chunks that only this sequence holds. */
guint64     llm_kv_seq_get_own_bytes  (LlmKvSeq          *self);

/* Makes room for @n_slots more slots behind the length, whose K and V the
 * forward pass then writes. Fails with NO_MEMORY past the ledger's budget; the
 * sequence is then as before. */
gboolean    llm_kv_seq_append         (LlmKvSeq          *self,
                                       guint              n_slots,
                                       GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* Forgets the slots from @length on. */
void        llm_kv_seq_truncate       (LlmKvSeq          *self,
                                       guint              length);
/* Keeps of the slots from @first on only those of the accepted path, which
 * lists slots in rising order, moved to @first, @first + 1, … (C4: after the
 * verification of a tree). */
void        llm_kv_seq_commit         (LlmKvSeq          *self,
                                       guint              first,
                                       const guint       *path,
                                       guint              n_path);

/* Brings the chunks that @layer needs into memory, or says to wait. A locked
 * sequence's chunks stay (L9). */
LlmStatus   llm_kv_seq_make_resident  (LlmKvSeq          *self,
                                       guint              layer,
                                       GError           **error);
void        llm_kv_seq_lock           (LlmKvSeq          *self);
void        llm_kv_seq_unlock         (LlmKvSeq          *self);

/* Writes one slot's K and V of one layer: each n_kv_heads * head_dim floats. */
void        llm_kv_seq_write          (LlmKvSeq          *self,
                                       guint              layer,
                                       guint              slot,
                                       const float       *k,
                                       const float       *v);

guint       llm_kv_seq_get_n_chunks   (LlmKvSeq          *self);
void        llm_kv_seq_view           (LlmKvSeq          *self,
                                       guint              layer,
                                       guint              chunk,
                                       LlmKvView         *view);
/* Attention mass that a chunk received (L3), summed; for eviction and bits. */
void        llm_kv_seq_add_density    (LlmKvSeq          *self,
                                       guint              chunk,
                                       float              mass);
float       llm_kv_seq_get_density    (LlmKvSeq          *self,
                                       guint              chunk);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmKvStore, llm_kv_store_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmKvSeq, llm_kv_seq_free)

G_END_DECLS
