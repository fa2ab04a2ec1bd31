/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Store, chunks and sequences as the files of this folder see each other. A chunk
 * belongs to the sequences that hold it, by count; a chunk of floats that one sequence
 * holds, and nothing writes to storage, may be written. What lies on storage belongs to a
 * sequence's hold, since folders are by context. The executor's thread owns all of it.
 *
 * From below: llm-kv-store.c: sizes, settings. llm-kv-chunk.c: memory of a chunk, quantization.
 * llm-kv-hold.c: what a sequence holds. llm-kv-seq.c, llm-kv-slide.c: slots that come, go and move,
 * views. llm-kv-ways.c: how what is missing comes back, llm-kv-restore-read.c: reading it,
 * llm-kv-restore.c: where a call begins, and what it waits for (L6). llm-kv-write.c: writing ahead
 * (L7). llm-kv-loss.c: what it costs to be without a chunk, llm-kv-evict.c: who goes,
 * llm-kv-refill.c: who comes back (L8). llm-kv-narrow.c: fewer bits while memory is short (S4).
 * llm-kv-call.c: sequences that come and go, where a call ends. llm-kv-share.c: what sequences have
 * from each other (L15). llm-kv-work.c: bits, quantization and writing between calls (L4).
 */

#pragma once

#include "base/llm-each.h"
#include "kv/llm-kv.h"

G_BEGIN_DECLS

/* Extents under way at most, and chunks of one. */
#define LLM_KV_MAX_BATCHES 4
#define LLM_KV_BATCH_CHUNKS 32
/* Limit of the pages that freed chunks keep: returning pages and zeroing new ones costs as much as
 * reading into them. */
#define LLM_KV_SPARE_BYTES ((guint64) 32 << 20)

typedef enum
{
  LLM_KV_GONE,         /* no memory */
  LLM_KV_READING,      /* the layers below n_ready are there */
  LLM_KV_COMPUTING,    /* the slots of todo are still to be written */
  LLM_KV_LOST,         /* could not be read; its memory goes when the reader has let go of it */
  LLM_KV_PRESENT,
} LlmKvState;

typedef struct
{
  guint n_holders;
  guint n_pins;           /* reads and writes that use its memory */
  guint n_keepers;        /* holders that only keep it for others to share */
  guint n_locks;          /* holders in a call */
  LlmKvState state;
  LlmKvForm form;         /* of what is in memory */
  gboolean leaves;        /* goes when it has been written */
  gboolean is_narrow;     /* has fewer bits than the ratio gives it, as memory was short */
  guint n_ready;
  guint64 todo;           /* bit for each slot */
  LlmKvSeq *restorer;     /* (nullable) (unowned): whose call brings it back */
  guint8 *data;           /* NULL also when its form has no bytes */
  gboolean is_rounded;    /* it was quantized, or computed by rows that saw what was: not what the
                           * tokens alone give */
  guint64 content;        /* equal in chunks of equal bytes; 0: not known */
  LlmKvQueueEntry entry;  /* queued while it may be taken */
  guint n_unwritten;      /* while it is decided who goes: holders whose storage lacks it */
  gboolean can_be_written; /* likewise: one of these could write it */
  gboolean keeps_bits;    /* likewise: it may not be quantized further */
  guint index;            /* likewise: of the hold of who holds it */
  double chance;          /* likewise: of the holder most likely to be called next */
} LlmKvChunk;

/* A sequence's hold on a chunk. */
typedef struct
{
  LlmKvChunk *chunk;
  guint64 hash;           /* of all tokens to its end; 0: not known */
  LlmKvSlot slot;         /* on storage; extent 0: nowhere */
  LlmKvForm slot_form;
  float received;         /* that this sequence's rows gave it in earlier calls (L3), decayed */
  float n_rows;           /* that saw it, likewise */
  guint64 received_now;   /* in this call, see LLM_KV_DENSITY_ONE */
  guint64 n_slots_now;    /* of all its rows */
  gboolean is_fixed;      /* what it saw slid away: computing it again would give something else */
  gboolean is_moved;      /* a sink at another position than its number says: never on storage */
  gboolean is_writing;
} LlmKvHold;

/* A chunk that is being read. */
typedef struct
{
  LlmKvChunk *chunk;      /* pinned: that is read */
  LlmKvChunk *into;       /* (nullable): pinned; floats that it is dequantized to, as rows are
                           * written behind the slots that are left of it */
  guint n_slots;          /* of these */
  LlmKvChunk *narrow;     /* (nullable): pinned; gets what was read, when all of it is there */
} LlmKvRestored;

static inline LlmKvHold *
llm_kv_seq_hold (LlmKvSeq *self,
                 guint     chunk)
{
  return &g_array_index (self->holds, LlmKvHold, chunk);
}

/* Full chunks; one more may be in part. */
static inline guint
llm_kv_seq_n_full (LlmKvSeq *self)
{
  return self->length / self->store->layout.chunk_slots;
}

/* --- store --- */

/* Of one head of @layer. */
static inline gsize
llm_kv_store_part_bytes (LlmKvStore  *store,
                         LlkKvFormat  format,
                         guint        layer,
                         LlkKvPart    part)
{
  return store->part_bytes[layer][format][part];
}

/* K, and then V. */
static inline gsize
llm_kv_store_head_bytes (LlmKvStore  *store,
                         LlkKvFormat  format,
                         guint        layer)
{
  return llm_kv_store_part_bytes (store, format, layer, LLK_KV_KEYS)
         + llm_kv_store_part_bytes (store, format, layer, LLK_KV_VALUES);
}

/* What layers have that the form has; the chunk may have more for them, up to a whole sector. */
static inline gsize
llm_kv_store_layer_bytes (LlmKvStore *store,
                          LlmKvForm   form,
                          guint       layer)
{
  if (LLM_KV_FORM_IS_BEHIND (form) && store->windows[layer] > 0)
    return 0;
  return llm_kv_store_head_bytes (store, LLM_KV_FORM_FORMAT (form), layer)
         * store->layers[layer].n_kv_heads;
}

static inline LlmKvForm
llm_kv_store_float_form (LlmKvStore *store)
{
  return LLM_KV_FORM (store->layout.format, FALSE);
}

/* Whether a form that comes from outside is one of this store's. */
gboolean    llm_kv_store_has_form    (LlmKvStore *store,
                                      guint       form);
gboolean    llm_kv_store_has_room    (LlmKvStore *store,
                                      guint64     bytes);

/* --- chunks --- */

/* (transfer full): GONE, with one holder. */
LlmKvChunk *llm_kv_chunk_new         (LlmKvStore *store);
/* Memory for a GONE chunk, poisoned in a debug build; FALSE when the system has none. The
 * budget is the caller's business. */
gboolean    llm_kv_chunk_allocate    (LlmKvStore *store,
                                      LlmKvChunk *chunk,
                                      LlmKvForm   form,
                                      LlmKvState  state);
/* Frees the memory: GONE. Not while it is pinned. */
void        llm_kv_chunk_drop        (LlmKvStore *store,
                                      LlmKvChunk *chunk);
void        llm_kv_chunk_unref       (LlmKvStore *store,
                                      LlmKvChunk *chunk);
void        llm_kv_chunk_unpin       (LlmKvStore *store,
                                      LlmKvChunk *chunk);
/* Queues it if it may be taken, as used now or (without @is_use) where it was. */
void        llm_kv_chunk_queue       (LlmKvStore *store,
                                      LlmKvChunk *chunk,
                                      gboolean    is_use);
void        llm_kv_chunk_lock        (LlmKvStore *store,
                                      LlmKvChunk *chunk);
void        llm_kv_chunk_unlock      (LlmKvStore *store,
                                      LlmKvChunk *chunk);
/* The restore path stops bringing it back. */
void        llm_kv_chunk_abandon     (LlmKvStore *store,
                                      LlmKvChunk *chunk);
/* These slots have been computed, or are not needed any more. */
void        llm_kv_chunk_clear_todo  (LlmKvStore *store,
                                      LlmKvChunk *chunk,
                                      guint64     slots);
static inline gboolean
llm_kv_chunk_is_float (const LlmKvChunk *chunk)
{
  return !llk_kv_is_packed (LLM_KV_FORM_FORMAT (chunk->form));
}

/* K or V of one head of one layer. */
guint8     *llm_kv_chunk_part        (LlmKvStore *store,
                                      LlmKvChunk *chunk,
                                      guint       layer,
                                      guint       head,
                                      LlkKvPart   part);
/* Brings floats to @to what @from has, of the layers [@first, @end). */
void        llm_kv_chunk_unpack      (LlmKvStore *store,
                                      LlmKvChunk *from,
                                      LlmKvChunk *to,
                                      guint       first,
                                      guint       end);
/* (transfer full) (nullable): a copy as floats, with one holder; NULL when the system has no
 * memory. */
LlmKvChunk *llm_kv_chunk_copy_floats (LlmKvStore *store,
                                      LlmKvChunk *from);
/* Brings a chunk to another form, with fewer bits or fewer layers. FALSE when the system has
 * no memory. */
gboolean    llm_kv_chunk_pack        (LlmKvStore *store,
                                      LlmKvChunk *chunk,
                                      LlmKvForm   form);
/* Whether it has fewer bits than the ratio gives it. */
void        llm_kv_chunk_set_narrow  (LlmKvStore *store,
                                      LlmKvChunk *chunk,
                                      gboolean    is_narrow);
/* Moves what @wide has to @chunk, which is narrow; @wide is GONE then. */
void        llm_kv_chunk_take_wide   (LlmKvStore *store,
                                      LlmKvChunk *chunk,
                                      LlmKvChunk *wide);
/* (transfer full) (nullable): a copy in such a form, with one holder; NULL when the system has no
 * memory. */
LlmKvChunk *llm_kv_chunk_pack_copy   (LlmKvStore *store,
                                      LlmKvChunk *from,
                                      LlmKvForm   form);
/* What a chunk of this content has in another form. */
guint64     llm_kv_content_in_form   (guint64     content,
                                      LlmKvForm   form);
/* In a debug build, makes the slots [@first, chunk_slots) of floats NaN in the layers
 * [@first_layer, @end_layer). */
void        llm_kv_chunk_poison      (LlmKvStore *store,
                                      LlmKvChunk *chunk,
                                      guint       first,
                                      guint       first_layer,
                                      guint       end_layer);

/* --- sequences --- */

/* Slots that the chunk has: fewer than chunk_slots for the last one. */
guint       llm_kv_seq_chunk_length  (LlmKvSeq   *self,
                                      guint       chunk);
gboolean    llm_kv_seq_is_full       (LlmKvSeq   *self,
                                      guint       chunk);
/* That it has on storage: chunks that slid away count. */
guint       llm_kv_seq_chunk_number  (LlmKvSeq   *self,
                                      guint       chunk);
/* The chunk of a number; FALSE when it slid away or is none. */
gboolean    llm_kv_seq_find_number   (LlmKvSeq   *self,
                                      guint       number,
                                      guint      *chunk);
/* Whether no row from @slot on sees the chunk in layers with a window. */
gboolean    llm_kv_seq_is_behind     (LlmKvSeq   *self,
                                      guint       chunk,
                                      guint       slot);
/* Whether the chunk has what rows from @slot on need of it, in this form. */
gboolean    llm_kv_seq_is_enough     (LlmKvSeq   *self,
                                      guint       chunk,
                                      LlmKvForm   form,
                                      guint       slot);
/* The call becomes an earlier one. */
void        llm_kv_seq_decay_density (LlmKvSeq   *self,
                                      guint       chunk,
                                      float       decay);
/* Rows that saw it, earlier calls decayed. */
float       llm_kv_seq_count_density_rows (LlmKvSeq *self,
                                      guint       chunk);
/* (nullable): the sequence's on a chunk whose index is known; it has the same place in all that
 * share it. */
LlmKvHold  *llm_kv_seq_find_hold     (LlmKvSeq   *self,
                                      const LlmKvChunk *chunk);
/* Whether storage has more bits of the chunk than memory, which was short. */
gboolean    llm_kv_hold_has_wide     (const LlmKvHold *hold);
/* Whether storage has the chunk as it is in memory, or its wide copy. */
gboolean    llm_kv_hold_is_written   (const LlmKvHold *hold);
/* Puts another chunk (transfer full) into the place of the one held, with the same lock. */
void        llm_kv_seq_replace       (LlmKvSeq   *self,
                                      guint       chunk,
                                      LlmKvChunk *with);
/* Removes it from storage, because it is about to change. */
void        llm_kv_seq_forget_slot   (LlmKvSeq   *self,
                                      guint       chunk);
/* (nullable): the chunk as floats that only this sequence has. What can't be had of it is to be
 * computed. NULL when the system has no memory. */
LlmKvChunk *llm_kv_seq_make_writable (LlmKvSeq   *self,
                                      guint       chunk);
/* All chunks. */
void        llm_kv_seq_lock          (LlmKvSeq   *self);
void        llm_kv_seq_unlock        (LlmKvSeq   *self);
/* Drops the chunks [@first, @end). */
void        llm_kv_seq_drop_chunks   (LlmKvSeq   *self,
                                      guint       first,
                                      guint       end);
/* (transfer none): another one, GONE, behind those there are. */
LlmKvChunk *llm_kv_seq_add_chunk     (LlmKvSeq   *self);
/* Marks all slots of the chunk, which is missing or in the wrong form, to be computed by this
 * sequence. FALSE when the system has no memory; the chunk is GONE then. */
gboolean    llm_kv_seq_compute       (LlmKvSeq   *self,
                                      guint       chunk);
/* Makes the chunk GONE in this sequence, whatever others have of it. If it @changes, they do not
 * get what comes into its place. */
void        llm_kv_seq_vacate        (LlmKvSeq   *self,
                                      guint       chunk,
                                      gboolean    changes);
/* Looks where the chunk lies on storage, which may have dropped it meanwhile. */
void        llm_kv_seq_find_slot     (LlmKvSeq   *self,
                                      guint       chunk);

/* --- bits (L4): llm-kv-bits.c, pure functions --- */

typedef struct
{
  float density;
  LlkKvFormat best;     /* what it has: never more bits than that */
} LlmKvBitsChunk;

/* Cost of the widths, for this model. */
typedef struct
{
  guint64 bytes[LLK_N_KV_FORMATS];    /* of a chunk */
  double errors[LLK_N_KV_FORMATS];    /* relative squared error, measured; rising as bits fall */
} LlmKvBitsCosts;

/* Sets @formats[i] to Q8, Q4, Q3 or Q2 such that the sum of density × error is least among all
 * choices of as many bytes, at most @budget (equations 2 and 3); a better one of @budget bytes
 * could differ by one step of one chunk. Where even the fewest bits take more than @budget, they
 * are what is chosen. A density that is no number counts as 0. Returns the bytes. */
guint64 llm_kv_bits_choose (const LlmKvBitsChunk *chunks,
                            guint                 n,
                            const LlmKvBitsCosts *costs,
                            guint64               budget,
                            LlkKvFormat          *formats);

/* --- memory is short (S4): llm-kv-narrow.c --- */

/* Quantizes further the chunks that can't be written (with @in_haste those not written) and those
 * that would be restored too late, of @seq (nullable: all, in the order of
 * llm_kv_loss_find_cheapest()), the widest first, until @bytes are freed. Called while eviction is
 * decided. Returns the bytes freed. */
guint64     llm_kv_narrow            (LlmKvStore *store,
                                      LlmKvSeq   *seq,
                                      guint64     bytes,
                                      gboolean    in_haste);
/* Begins to restore some wide copies, if that was asked for; TRUE when it did. */
gboolean    llm_kv_narrow_widen_next (LlmKvStore *store);
/* Ends it. */
void        llm_kv_narrow_stop       (LlmKvStore *store);

/* --- sharing: llm-kv-share.c --- */

/* Brings the chunk to another form, for this sequence alone: another that holds the same bytes in
 * that form has it together with it, others that hold it keep it as it is. */
void        llm_kv_seq_pack          (LlmKvSeq   *self,
                                      guint       chunk,
                                      LlmKvForm   form);
/* Names the bytes of a full chunk that was computed, of tokens with this hash. */
void        llm_kv_seq_name_content  (LlmKvSeq   *self,
                                      guint       chunk,
                                      guint64     hash);
/* Finds the first chunk that is rounded: rows behind it are, too. */
void        llm_kv_seq_find_rounded  (LlmKvSeq   *self);

/* --- calls and restores --- */

/* Whether @bytes can be read within what the sequence's calls are held to. */
gboolean    llm_kv_seq_is_in_time    (LlmKvSeq   *self,
                                      guint64     bytes);

/* How a chunk comes back. */
enum { LLM_KV_STAYS, LLM_KV_READ, LLM_KV_COMPUTE };

/* Looks up where the missing chunks are on storage. */
void        llm_kv_ways_find_slots   (LlmKvSeq   *self);
/* Decides whether this call restores wide copies of narrow chunks: not while memory is still short,
 * and not if that takes longer than the call has. */
void        llm_kv_ways_choose_wide  (LlmKvSeq   *self);
/* Sets @ways (STAYS before), one of each chunk, for a call of @n_new rows. */
void        llm_kv_ways_choose       (LlmKvSeq   *self,
                                      guint       n_new,
                                      guint8     *ways,
                                      LlmKvPlan  *plan);
/* Adds chunks that must be computed too, because recomputed rows, or those after the length, see
 * them. */
void        llm_kv_ways_widen        (LlmKvSeq   *self,
                                      guint8     *ways);
/* Of memory. */
guint64     llm_kv_ways_count_bytes  (LlmKvSeq   *self,
                                      const guint8 *ways);

/* Allocates memory for the chunks that come back. FALSE when the system has none. */
gboolean    llm_kv_restore_prepare   (LlmKvSeq   *self,
                                      const guint8 *ways);
/* Reads the chunks that were prepared for it. */
void        llm_kv_restore_begin_read (LlmKvSeq  *self,
                                      const guint8 *ways);
/* Reads @targets, to the chunks of the sequence's targets. These stay pinned until nothing is under
 * way, also when the sequence has gone meanwhile. */
void        llm_kv_restore_read      (LlmKvSeq   *self,
                                      const LlmKvTarget *targets,
                                      guint       n,
                                      LlmKvArrived arrived);
/* Ends a read; chunks that have arrived stay. */
void        llm_kv_restore_end_read  (LlmKvSeq   *self);

/* Ends the restore; chunks that have not arrived are GONE. */
void        llm_kv_restore_end       (LlmKvSeq   *self);

/* Reads chunks that are GONE, full and on storage, ahead of a call: [@first, @end) of a sequence
 * that is not locked and reads nothing. FALSE when the system has no memory. */
gboolean    llm_kv_restore_ahead     (LlmKvSeq   *self,
                                      guint       first,
                                      guint       end);
/* Ends a read that has arrived completely. FALSE when it has not. */
gboolean    llm_kv_restore_finish    (LlmKvSeq   *self);

/* --- who goes, and who comes back (L8) --- */

/* Measures what all sequences lack, their chances, and where their chunks are. */
void        llm_kv_loss_measure      (LlmKvStore *self);
/* Begins to go through the sequences again. */
void        llm_kv_loss_restart      (LlmKvStore *self);
/* (nullable): of those in no call and not done, the one whose next bytes are expected to cost
 * least; of equals the one that was not used for longest. */
LlmKvSeq   *llm_kv_loss_find_cheapest (LlmKvStore *self);
/* The chunk is evicted: all sequences that hold it lack it. */
void        llm_kv_loss_count_gone   (LlmKvStore *self,
                                      const LlmKvChunk *chunk);
/* Whether, where that matters, a context would come back too late for its target, if the chunk went
 * too. */
gboolean    llm_kv_loss_is_late      (LlmKvStore *self,
                                      const LlmKvChunk *chunk);
/* What the next byte that it lacks is expected to cost; in no unit. */
double      llm_kv_loss_get_cost     (const LlmKvLoss *self);
/* Continues the reads ahead of calls. */
void        llm_kv_refill_work       (LlmKvStore *self);

/* --- work --- */

/* Whether there could be something to do: from the start. */
void        llm_kv_work_begin        (LlmKvSeq   *self);
/* Nothing any more, until it begins again. */
void        llm_kv_work_stop         (LlmKvSeq   *self);
/* Slots changed: the chosen formats are void. */
void        llm_kv_work_restart      (LlmKvSeq   *self);
void        llm_kv_work_set_stage    (LlmKvSeq   *self,
                                      LlmKvStage  stage);
/* Whether the sequence's folder could take what it holds there. */
gboolean    llm_kv_work_can_write    (LlmKvSeq   *self,
                                      const LlmKvHold *hold);
/* Of a chunk that is held: evicts it if its memory is wanted and no sequence will write it. */
void        llm_kv_work_let_leave    (LlmKvStore *store,
                                      LlmKvChunk *chunk);
/* Submits an extent. FALSE when no chunk had to be written; chunks that were to leave have left
 * then. */
gboolean    llm_kv_work_write        (LlmKvSeq   *self);
/* The sequence ends and its folder is closed: writes under way report nothing any more. */
void        llm_kv_work_cancel_writes (LlmKvSeq  *self);

G_END_DECLS
