/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The KV cache: what the model remembers of each sequence, as a row of
 * chunks of a fixed number of positions (L2). A chunk holds every layer's K and
 * V of its positions: as floats while a call writes it, quantized to fewer bits when the
 * call has returned (L4, L5), and on storage, from where it comes back when it is
 * needed (L6, L7). Forks share whole chunks and copy the last one when it
 * is written. Nothing above this folder knows formats: attention asks for views
 * of chunks and hands them to kernels.
 *
 * A slot is a place in the sequence's memory, a position is what rotary
 * embedding sees; they differ in trees of drafted tokens, and behind a window that
 * slid (L11).
 *
 * One thread owns store and sequences: the executor's. Nothing here waits for I/O but
 * llm_kv_store_wait().
 */

#pragma once

#include "memory/llm-ledger.h"
#include "base/llm-status.h"
#include "kernels/llk.h"
#include "kv/llm-kv-arena.h"
#include "kv/llm-kv-plan.h"
#include "kv/llm-kv-policy.h"
#include "kv/llm-kv-queue.h"
#include "kv/llm-kv-reuse.h"
#include "kv/disk/llm-kv-storage.h"

#include <gio/gio.h>

G_BEGIN_DECLS

/* State that a model keeps of its tokens. */
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

/* A layer's K and V of a position. */
typedef struct
{
  guint n_kv_heads;
  guint head_dim;
} LlmKvLayer;

typedef struct
{
  LlmKvKind kind;
  LlkKvFormat format;   /* of what is being written: F32 or F16 */
  guint n_layers;
  guint n_kv_heads;     /* where layers differ, the largest; likewise: */
  guint head_dim;
  guint chunk_slots;    /* positions in one chunk: 16 unless configured, 32, 48 or 64 */
  const LlmKvLayer *layers; /* (nullable) [n_layers]: where layers differ; copied */
  const guint *windows; /* (nullable) [n_layers]: positions that a layer sees, 0 for all; copied */
  const float *feedback; /* (nullable) [n_layers × n_kv_heads × head_dim × LLK_KV_FEEDBACK], of
                          * each layer as many heads and values as it has: for rounding values, see
                          * LlkKvOps; copied */
} LlmKvLayout;

typedef struct _LlmKvStore LlmKvStore;
typedef struct _LlmKvSeq LlmKvSeq;

/* One chunk's part of one layer, head after head, @head_bytes apart; each has its K and then, at
 * v, its V, in @format (kernels/llk-kv.h, kernels/llk-attention.h). */
typedef struct
{
  const void *k;        /* (nullable): NULL with v where the chunk lies behind the layer's window */
  const void *v;
  gsize head_bytes;
  LlkKvFormat format;
  guint first_slot;
  guint n_slots;        /* written ones */
  guint chunk_slots;    /* those it has room for */
} LlmKvView;

/* Since the store was made. */
typedef struct
{
  guint64 n_packed;       /* chunks brought to fewer bits */
  guint64 n_written;      /* chunks written to storage */
  guint64 n_evicted;      /* chunks whose memory was freed */
  guint64 evicted_bytes;
  guint64 n_dropped;      /* of these, those that storage lacked: to be computed again */
  guint64 n_narrowed;     /* times that a chunk was quantized further as memory was short */
  guint64 n_widened;      /* chunks whose wide copy was read back after that */
  guint64 n_restored;     /* chunks read back */
  guint64 n_recomputed;   /* chunks computed again */
  guint64 n_faulted;      /* chunks found missing while a call ran, or damaged */
  guint64 n_shared;       /* chunks that another sequence had already */
  guint64 read_bytes;
  guint64 written_bytes;
} LlmKvCounters;

/* Work left for a sequence between calls. */
typedef enum
{
  LLM_KV_IDLE,
  LLM_KV_TO_PACK,
  LLM_KV_TO_WRITE,
  LLM_KV_N_STAGES,
} LlmKvStage;

/* What a sequence lacks, while eviction or refill is decided. */
typedef struct
{
  double chance;          /* that it is called next */
  double missing_bytes;   /* to be read for it */
  double hidden_bytes;    /* read while its prompt is computed, on average */
  double first_bytes;     /* read meanwhile until the first layers are there */
  guint at;               /* chunk to look at next */
  gboolean shares;        /* now those that others hold as well */
  gboolean is_done;       /* nothing is left to take */
} LlmKvLoss;

/* Code outside of this folder reads the fields above "private". */
struct _LlmKvSeq
{
  LlmKvStore *store;      /* (unowned) */
  GArray *holds;          /* (element-type LlmKvHold) (owned): a chunk each; chunk i has the slots
                           * from i * chunk_slots */
  guint length;           /* slots */
  guint n_slid;           /* slots that slid away so far: the position of a slot behind the sinks is
                           * slot + this */
  guint n_sinks;          /* slots at the beginning that stayed; 0 when it has not slid */
  gboolean is_locked;     /* a call has begun */
  gboolean is_exact;      /* its chunks are never quantized further because memory is short */
  gboolean took_quantized; /* it began with chunks that another sequence had quantized */
  double restore_us;      /* within which it should come back: its last call's target; 0: none */
  gboolean has_fault;     /* a chunk turned out to be damaged since: the step in which
                           * llm_kv_seq_make_resident() failed is left, and begun again with the
                           * slots that are missing now */

  /*< private >*/
  gboolean reads_wide;    /* this call has wide copies of narrow chunks read back */
  guint n_widening;       /* of them, under way between calls */
  gboolean is_branch;     /* its rows are only tried */
  gboolean is_kept;       /* it only keeps chunks as they were computed, for others to share */
  guint64 app;            /* the owner; 0: none */
  guint first_rounded;    /* rows behind this chunk see what was quantized */
  gboolean is_whole;      /* while locked: all chunks were there when last looked at */
  GList link;             /* in the store's sequences */
  LlmKvFolder *folder;    /* (nullable) (owned) */
  LlmKvRead *read;        /* (nullable) (owned) */
  GArray *targets;        /* (element-type LlmKvRestored) (owned): of read */

  LlmKvStage stage;
  GList work_link;        /* in the store's stages */
  guint8 *formats;        /* (nullable) (owned): that were chosen for the chunks */
  guint n_formats;
  guint at;               /* chunk to look at next */
  gboolean write_failed;  /* since the last call */
  GList *batches;         /* (owned): extents that are being written, see llm-kv-write.c */
  LlmKvReuse reuse;       /* in the store's */
  gboolean is_called;     /* a call has begun and was counted there, whatever became of it */
  LlmKvLoss loss;
};

struct _LlmKvStore
{
  LlmKvLayout layout;
  LlmKvPolicy policy;
  LlmKvProfile profile;   /* what restoring costs here: others may set it */
  LlmKvCounters counters;
  guint64 piece_bytes;    /* that a read brings at once, at least */
  guint64 bytes;          /* of chunks in memory: all, and those that are quantized */
  guint64 packed_bytes;
  gboolean narrows;       /* others may set it: chunks are quantized further while memory is
                           * short */
  gboolean is_short;      /* others set it: memory is short now */
  guint n_narrow;         /* chunks in memory with fewer bits than the ratio gives them */
  guint64 spare_bytes;    /* of chunks that went, and have their pages still */

  /*< private >*/
  gboolean widens;        /* wide copies are to be brought back */
  gboolean keeps_pages;   /* while chunks are evicted: their pages go together */
  LlmLedger *ledger;      /* (nullable) (owned) */
  LlmKvStorage *storage;  /* (nullable) (unowned) */
  const LlkOps *ops;
  guint *windows;         /* (nullable) (owned): layout.windows */
  float *feedback;        /* (nullable) (owned): layout.feedback */
  guint window;           /* the largest of them; 0: no layer has one */

  LlmKvLayer *layers;     /* (owned): layout.layers, also where all are alike */
  gsize (*part_bytes)[LLK_N_KV_FORMATS][2];    /* (owned) [n_layers]: K and V of one head */
  LlmKvArena arenas[LLM_KV_N_FORMS];
  LlmKvShape shape;       /* its offsets are (owned) */
  float *values;          /* (owned): one part as floats */
  float *values_again;    /* (owned): dequantized, to see the error */

  double errors[LLK_N_KV_FORMATS];             /* relative squared, running means */
  guint n_errors;
  LlmKvQueue queue;       /* of chunks that may be taken */
  GQueue sequences;       /* of all, the last used last */
  LlmKvReuseModel reuse;  /* of all */
  LlmKvSeq *refilled;     /* (nullable) (unowned): whose chunks are read for no call */
  GQueue stages[LLM_KV_N_STAGES]; /* likewise, by what is left to do for them */
  guint n_batches;
  guint n_reads;          /* of chunks, of sequences that may be gone */
  guint64 n_contents;     /* that no other sequence has */
};

/* Fails with UNSUPPORTED for a kind that is not FULL or WINDOW, and for sizes
 * that attention can't compute. @policy: (nullable): keeps all as floats; copied. @ledger
 * (nullable). */
LlmKvStore *llm_kv_store_new          (const LlmKvLayout *layout,
                                       const LlmKvPolicy *policy,
                                       LlmLedger         *ledger,
                                       GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* All sequences must be gone. */
void        llm_kv_store_free         (LlmKvStore        *self);
/* Where chunks may be written, for a model of this identity; before the first sequence.
 * @storage: (nullable) (unowned). */
void        llm_kv_store_set_storage  (LlmKvStore        *self,
                                       LlmKvStorage      *storage,
                                       guint64            identity);
/* From now on, of a policy that packs by density. */
void        llm_kv_store_set_ratio    (LlmKvStore        *self,
                                       double             ratio);
/* The least ratio that chunks can be packed to, in percent, rounded up. */
guint       llm_kv_layout_get_least_ratio (const LlmKvLayout *layout);
/* Values of K and V of one position in all layers. */
guint64     llm_kv_layout_count_values (const LlmKvLayout *layout);
/* Bytes of a chunk in a format. */
guint64     llm_kv_store_get_chunk_bytes (LlmKvStore     *self,
                                       LlkKvFormat        format);
/* Bytes that @n_slots more slots of a sequence take at most. */
guint64     llm_kv_store_price        (LlmKvStore        *self,
                                       guint              n_slots);

/* Continues the work that calls left behind: chooses bits, quantizes and writes chunks, takes
 * answers of the disk. Returns by @until_us (a time of llm_clock_now_us()) or soon after. TRUE when
 * more could be done now. */
gboolean    llm_kv_store_work         (LlmKvStore        *self,
                                       gint64             until_us);
/* Whether all of it is done: no chunk to quantize or write, no request under way. */
gboolean    llm_kv_store_is_settled   (LlmKvStore        *self);
/* Takes the disk's answers; waits until there is one, at most @timeout_us. */
void        llm_kv_store_wait         (LlmKvStore        *self,
                                       gint64             timeout_us);
/* Evicts @bytes: first chunks that are only kept for others to share; then, of sequences that are
 * not locked, chunks that are on storage and can be restored in time; then (without @in_haste;
 * those bytes come later) chunks that can be written; then bits (S4); then chunks that must be
 * computed again, or come late. Each where the expected cost is least (L8, llm-kv-loss.c), or as
 * the policy says. Returns the bytes freed. */
guint64     llm_kv_store_evict        (LlmKvStore        *self,
                                       guint64            bytes,
                                       gboolean           in_haste);

/* Memory is not short any more: llm_kv_store_work() brings back the wide copies that storage has
 * of narrow chunks, as far as there is room and no call runs. */
void        llm_kv_store_widen        (LlmKvStore        *self);
/* Begins to restore the chunks that are likely to be used next, at most @max_bytes and no more than
 * fit, from storage alone; llm_kv_store_work() continues it, and a call of that sequence ends it.
 * For when nothing runs. Returns the bytes; 0: nothing to do, memory is short, or a read is under
 * way, wide copies first. */
guint64     llm_kv_store_refill       (LlmKvStore        *self,
                                       guint64            max_bytes);
/* Ends both: nothing more is read for no call. */
void        llm_kv_store_stop_reading (LlmKvStore        *self);

/* The same of one sequence's chunks, in the order of the text. */
guint64     llm_kv_seq_evict          (LlmKvSeq          *self,
                                       guint64            bytes,
                                       gboolean           in_haste);

/* Gives the system the pages that are kept for the next chunks. Returns their bytes. */
guint64     llm_kv_store_trim         (LlmKvStore        *self);

/* --- sequences --- */

/* @app, @id: (nullable): application and context whose folder on storage it has; NULL for a
 * sequence that is never written. What storage has of it is found by llm_kv_seq_attach(), once
 * llm_kv_seq_is_open(). */
LlmKvSeq   *llm_kv_seq_new            (LlmKvStore        *store,
                                       const char        *app,
                                       const char        *id);
void        llm_kv_seq_free           (LlmKvSeq          *self);
/* Whether it is known what storage has of it: what describes the files of a long context takes a
 * slow disk a while, and comes with llm_kv_store_wait(). */
gboolean    llm_kv_seq_is_open        (LlmKvSeq          *self);
/* A sequence with the same content; chunks are shared until written, and on storage. */
LlmKvSeq   *llm_kv_seq_fork           (LlmKvSeq          *self,
                                       const char        *app,
                                       const char        *id);
/* (transfer full): a sequence with the first @n_slots of @self, whose call runs, for rows that are
 * only tried: it is locked, and never quantized, written or counted as called. Freed before that
 * call ends or is preempted. */
LlmKvSeq   *llm_kv_seq_branch         (LlmKvSeq          *self,
                                       guint              n_slots);
/* Slots, in whole chunks, that are in memory as their tokens alone give them: nothing of what their
 * rows saw was quantized. Where nothing is ever quantized all are, in memory or not. */
guint       llm_kv_seq_count_exact    (LlmKvSeq          *self);
/* Slots, in whole chunks, that are in memory or on storage in whatever form. */
guint       llm_kv_seq_count_any      (LlmKvSeq          *self);
/* (transfer full): the first @n_slots (whole chunks, exact) of @self as they are, for others to
 * share: when @self quantizes its own these stay, until memory is wanted. */
LlmKvSeq   *llm_kv_seq_keep           (LlmKvSeq          *self,
                                       guint              n_slots);
/* Bytes of chunks that are kept for others to share. */
guint64     llm_kv_store_count_kept   (LlmKvStore        *self);
/* Frees @bytes of the chunks that are kept for others to share. Returns the bytes freed. */
guint64     llm_kv_store_drop_kept    (LlmKvStore        *self,
                                       guint64            bytes);
/* Gives @self, which is empty, the first @n_slots (whole chunks) of @from (same store and
 * application: the caller has compared the tokens), shared in memory and on storage (L15); without
 * their densities. Of more than llm_kv_seq_count_exact() it has what it would not have computed
 * itself. */
void        llm_kv_seq_share          (LlmKvSeq          *self,
                                       LlmKvSeq          *from,
                                       guint              n_slots);
/* Bytes in memory of chunks that only this sequence holds. */
guint64     llm_kv_seq_get_own_bytes  (LlmKvSeq          *self);

/* Makes room for @n_slots more slots behind the length, whose K and V the
 * forward pass then writes. Fails with NO_MEMORY past the ledger's budget; the
 * sequence is then as before. */
gboolean    llm_kv_seq_append         (LlmKvSeq          *self,
                                       guint              n_slots,
                                       GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* Forgets the slots from @length on. A quantized chunk that is cut in the middle is dequantized, or
 * missing when it can't be. */
void        llm_kv_seq_truncate       (LlmKvSeq          *self,
                                       guint              length);
/* Keeps of the slots from @first on only those of the accepted path, which
 * lists slots in rising order, moved to @first, @first + 1, … (C4: after the
 * verification of a tree). */
void        llm_kv_seq_commit         (LlmKvSeq          *self,
                                       guint              first,
                                       const guint       *path,
                                       guint              n_path);
/* Lets the window slide (L11): forgets @n_slots (whole chunks) behind the first @n_sinks (whole
 * chunks). The position of a slot is from now on slot + n_slid, that of the sinks
 * too: they move along, are missing now, and are computed again there, which costs one chunk of
 * rows. Where fewer slots are there, all but the sinks go, and sinks that are not there are
 * missing: so an empty sequence can be told how far its window has come. */
void        llm_kv_seq_slide          (LlmKvSeq          *self,
                                       guint              n_sinks,
                                       guint              n_slots);

/* --- the life of a call --- */

/* For a sequence that is open, and empty but for the sinks of a window that slid: takes
 * from storage what belongs to @tokens, the context's tokens from the first, those that slid away
 * too. The length becomes the end of the last chunk found; what lies between and was not found is
 * missing. Returns the length, which is as before when nothing was found. */
guint       llm_kv_seq_attach         (LlmKvSeq          *self,
                                       const gint32      *tokens,
                                       guint              n_tokens);
/* A call begins, which will append @n_new rows: locks the chunks (L9), plans how missing ones come
 * back (@plan is set), makes room, begins to read. Fails with NO_MEMORY; the chunks in memory stay
 * locked then until it is tried again, or preempted. */
gboolean    llm_kv_seq_begin_call     (LlmKvSeq          *self,
                                       guint              n_new,
                                       LlmKvPlan         *plan,
                                       GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* Appends the slots that the call must compute again to @slots (element-type guint), rising; they
 * are floats and writable, and count as there once they were written in all layers. */
void        llm_kv_seq_get_missing    (LlmKvSeq          *self,
                                       GArray            *slots);
/* For a call that was preempted (L9): its chunks may be evicted; then begin_call() again. */
void        llm_kv_seq_preempt           (LlmKvSeq          *self);
/* The call has returned: ends the lock. @tokens: of all slots, slid ones included. What is new is
 * quantized and written by llm_kv_store_work() (L4, L7). */
void        llm_kv_seq_end_call       (LlmKvSeq          *self,
                                       const gint32      *tokens,
                                       guint              n_tokens);

/* Takes what has arrived. READY when the chunks that @layer needs are in memory, PENDING when they
 * are on their way, FAILED (see has_fault) when one can't come. */
LlmStatus   llm_kv_seq_make_resident  (LlmKvSeq          *self,
                                       guint              layer,
                                       GError           **error);

/* Writes one slot's K and V of one layer: each n_kv_heads * head_dim floats. */
void        llm_kv_seq_write          (LlmKvSeq          *self,
                                       guint              layer,
                                       guint              slot,
                                       const float       *k,
                                       const float       *v);

/* The same by head, by any thread: between begin and end, which are the owner's, of slots that one
 * thread writes. Begin makes room for the slot, which a fork may have shared; end says that all
 * heads of @layer are written. */
void        llm_kv_seq_begin_write    (LlmKvSeq          *self,
                                       guint              slot);
void        llm_kv_seq_write_head     (LlmKvSeq          *self,
                                       guint              layer,
                                       guint              head,
                                       guint              slot,
                                       const float       *k,
                                       const float       *v);
void        llm_kv_seq_end_write      (LlmKvSeq          *self,
                                       guint              layer,
                                       guint              slot);
/* Copies a slot of one head of a chunk, K and V, to that of another, both in the
 * layout's format; V lies behind K. */
void        llm_kv_copy_slot          (const LlmKvLayout *layout,
                                       guint              head_dim,
                                       gconstpointer      from_part,
                                       guint              from,
                                       gpointer           to_part,
                                       guint              to);

void        llm_kv_seq_view           (LlmKvSeq          *self,
                                       guint              layer,
                                       guint              chunk,
                                       LlmKvView         *view);
/* What a row gives out in all. Attention is added up in fixed point, so that densities are the same
 * whatever is added first, or together; a chunk may get all of 2^20 rows in a call. */
#define LLM_KV_DENSITY_ONE (G_GUINT64_CONSTANT (1) << 44)

/* Attention that a chunk received (L3) of rows that see @n_slots of its slots, summed over rows. */
void        llm_kv_seq_add_density    (LlmKvSeq          *self,
                                       guint              chunk,
                                       guint64            received,
                                       guint64            n_slots);
/* Mean attention that a row gave to the chunk, earlier calls decayed; who sees a part of the slots
 * counts for that part. */
float       llm_kv_seq_get_density    (LlmKvSeq          *self,
                                       guint              chunk);

/* Where a chunk is, to be shown to users. */
typedef struct
{
  guint8 bits;            /* 32, 16, 8, 4, 3 or 2; 0 when it is nowhere but in the text */
  guint8 storage_bits;    /* of the copy on storage, which may have more; 0 without one */
  guint8 is_in_memory;
  guint8 is_on_storage;
  guint8 is_shared;       /* with another sequence */
} LlmKvChunkInfo;

void        llm_kv_seq_get_info       (LlmKvSeq          *self,
                                       guint              chunk,
                                       LlmKvChunkInfo    *info);

/* Bits of a number of K and V, mean over the slots; of chunks that are not in memory those that
 * storage has. 0 for an empty sequence. */
double      llm_kv_seq_get_bits       (LlmKvSeq          *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmKvStore, llm_kv_store_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmKvSeq, llm_kv_seq_free)

G_END_DECLS
