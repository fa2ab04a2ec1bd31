/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Repacked weights: a model's matrices, cut into the segments of its sub-models and packed into
 * panels (kernels/llk-panel.h), segment after segment, in each in the order in which the forward
 * pass reads them: a sub-model is the beginning of the file. Or, for prompts in W8A8, into the panels
 * of that (kernels/llk-w8.h), those of the model's sites alone. Or by channel (kernels/llk-channels.h):
 * first the heads of all panels, each with its checksum, then bundles: the codes of all operators that
 * have an input in common, input after input, each with its checksum. The plan says where each matrix is and what the head of the file must be. It follows from the model file, the table of sub-models and the
 * calibration alone; a file is valid when its head is the one of the plan, so its contents are never trusted.
 *
 * The file: header, table of matrices, checksums of its pieces, zeros up to a multiple of a huge
 * page, then the segments, each at a multiple of 4 KiB, their matrices without gaps. Numbers are in
 * the byte order of the machine. Its modification time is named in the header: a write into the
 * file changes it.
 *
 * For llm-repacked*.c and llm-weights-file.c. Any thread.
 */

#pragma once

#include "model/llm-calibration.h"
#include "model/llm-thresholds.h"
#include "weights/llm-repacked-cache.h"

/* --- llm-repacked-plan.c --- */

/* Bytes of the matrices that are packed, written and checked at a time: two huge pages. */
#define LLM_REPACKED_PIECE ((guint64) 4 << 20)

typedef struct
{
  LlmOperator op;
  guint layer;
  guint segment;
  LlmTensorPart part;   /* where the rows of the whole operator are */
  LlmSegmentShape shape; /* the segment's part of it: never empty */
  guint64 offset;       /* of the first panel, from the first matrix on */
  gsize panel_bytes;
  guint n_panels;
  LlkW8Matrix w8;       /* of panels in W8A8: shape and hot inputs, which are (owned) */
  guint bundle;         /* by channel, where panels are their heads: number of that with its codes, */
  guint codes_at;       /* and where in each of its records they begin */
} LlmRepackedMatrix;

/* The codes of matrices that have the same inputs, @in_count records behind each other. */
typedef struct
{
  LlmInput input;
  guint layer;
  guint in_first, in_count;
  guint64 offset;       /* as of matrices */
  guint codes_bytes;    /* of a record, whose checksum is behind them */
  guint record_bytes;
} LlmRepackedBundle;

typedef enum
{
  LLM_REPACKED_PANELS,
  LLM_REPACKED_W8,
  LLM_REPACKED_CHANNELS,
} LlmRepackedForm;

/* Rows of the model file. */
typedef struct
{
  guint64 offset;
  guint64 length;
} LlmRepackedRows;

/* Immutable once made, except for the reference count. */
typedef struct
{
  gatomicrefcount ref_count;
  LlmGguf *gguf;            /* (owned) */
  GArray *matrices;         /* (element-type LlmRepackedMatrix), by offset */
  guint *places;            /* [n_layers × LLM_N_OPS × n_segments]: index in matrices + 1, 0 for
                             * none */
  guint n_segments;
  GArray *rows;             /* (element-type LlmRepackedRows): source data that is not read any more
                             * once it is repacked; not the embedding, which still is */
  GArray *bundles;          /* (element-type LlmRepackedBundle): by offset, behind the matrices */
  guint64 bytes;            /* of all matrices, with the gaps between segments, and of bundles */
  guint n_pieces;
  guint64 data_offset;      /* of the first matrix in the file */
  guint64 file_bytes;
  LlmFileIdentity source;   /* of the model file; all zero for a model in memory */
  guint64 source_weights;   /* hash of a sample of its weights */
  guint64 layout;           /* fingerprint of the panels that this program packs */
  guint64 levels;           /* of the table of sub-models */
  LlmRepackedForm form;
  LlmRepackProgress *progress; /* (nullable) (unowned): while the weights are loaded */
} LlmRepackedPlan;

/* @gguf must have passed llm_operator_check_all(). @sub_models: (nullable): NULL for the
 * whole model. @calibration: (nullable): for W8A8. */
LlmRepackedPlan *llm_repacked_plan_new   (LlmGguf               *gguf,
                                          const LlmHparams      *hparams,
                                          const LlmSubModels    *sub_models,
                                          const LlmCalibration  *calibration,
                                          GError               **error) G_GNUC_WARN_UNUSED_RESULT;
/* By channel: those operators of layers that have an LlmInput and such codes. None may. */
LlmRepackedPlan *llm_repacked_plan_new_channels (LlmGguf        *gguf,
                                          const LlmHparams      *hparams,
                                          const LlmSubModels    *sub_models,
                                          GError               **error) G_GNUC_WARN_UNUSED_RESULT;
LlmRepackedPlan *llm_repacked_plan_ref   (LlmRepackedPlan       *self);
void             llm_repacked_plan_unref (LlmRepackedPlan       *self);

/* (nullable): NULL for an operator that is not packed, and where the segment is empty. */
const LlmRepackedMatrix *
                 llm_repacked_plan_find  (const LlmRepackedPlan *self,
                                          LlmOperator            op,
                                          guint                  layer,
                                          guint                  segment);
/* (transfer full): the name of the model's file in a cache folder. */
char            *llm_repacked_plan_get_name (const LlmRepackedPlan *self);
/* Bytes of piece @piece, the last of which may be short. */
gsize            llm_repacked_plan_get_piece (const LlmRepackedPlan *self,
                                          guint                  piece);

/* (transfer full): the head of the file. @checksums: of the pieces, n_pieces of
 * them; @modified_s: the time that the file will say it was modified; @boot: of
 * llm_repacked_get_boot(). */
GBytes          *llm_repacked_head_new   (const LlmRepackedPlan *self,
                                          const guint64         *checksums,
                                          gint64                 modified_s,
                                          guint64                boot);

/* Fields of a valid head that do not follow from the plan. */
typedef struct
{
  gint64 modified_s;
  guint64 boot;              /* boot in which the file was written */
  const guint64 *checksums;  /* within the head */
} LlmRepackedHead;

/* Whether @data, of @size bytes, is a file of this plan; (out) @head is filled in. @reason: (out):
 * why not, for a log. Does not read the matrices. */
gboolean         llm_repacked_head_check (const LlmRepackedPlan *self,
                                          const guint8          *data,
                                          guint64                size,
                                          LlmRepackedHead       *head,
                                          const char           **reason);
/* Identifies the current boot of the machine. */
guint64          llm_repacked_get_boot   (void);

/* --- llm-repacked-channels.c --- */

/* Bundles of the matrices, behind them. */
void             llm_repacked_plan_bundle (LlmRepackedPlan       *self);
/* A hash of what llk_channels_split() makes of @panel, of @n inputs. */
guint64          llm_repacked_hash_channels (LlkType              type,
                                          const guint8          *panel,
                                          gsize                  n);
/* Bytes of the heads of a panel with their checksum, and puts that behind them. */
gsize            llm_repacked_get_heads_bytes (const LlmTensorPart *part,
                                          const LlmSegmentShape *shape);
void             llm_repacked_seal_heads (const LlmRepackedMatrix *matrix,
                                          guint8                *heads);
/* Memory that the next function needs. */
gsize            llm_repacked_measure_channels (const LlmRepackedPlan *plan);
/* Writes what bundles have in [@begin, @end) to @piece, which begins at @begin; gaps stay. */
void             llm_repacked_pack_bundles (const LlmRepackedPlan *plan,
                                          guint64                begin,
                                          guint64                end,
                                          guint8                *piece,
                                          guint8                *scratch);
/* Whether the record has the codes, and the panel the heads, that were written. */
gboolean         llm_repacked_check_record (const LlmRepackedBundle *bundle,
                                          const guint8          *record);
gboolean         llm_repacked_check_heads (const LlmRepackedMatrix *matrix,
                                          const guint8          *heads);

/* --- llm-repacked-pack.c: repacks on several threads; the caller waits --- */

/* Packs the bytes from @first to @end into @memory, of plan->bytes bytes, 64-byte aligned, and
 * writes nothing else. @n_threads: 0 for as many as the machine gives. Fails only when the model
 * file was damaged meanwhile. */
gboolean         llm_repack_in_memory    (const LlmRepackedPlan *plan,
                                          guint                  n_threads,
                                          guint64                first,
                                          guint64                end,
                                          guint8                *memory,
                                          GError               **error);
/* Writes the matrices to the open file from plan->data_offset on, in pieces at
 * multiples of LLM_REPACKED_PIECE, and fills in their @checksums. @path: for the error. */
gboolean         llm_repack_in_file      (const LlmRepackedPlan *plan,
                                          guint                  n_threads,
                                          int                    fd,
                                          const char            *path,
                                          guint64               *checksums,
                                          GError               **error);
/* --- llm-repacked.c --- */

/* Repacked weights in use: a mapped file, or memory of this process where no file can be stored.
 * Deferred work runs on a thread of its own: reading ahead, writing a new file to the disk and
 * giving it its name, and comparing checksums. The first fields do not change once it is
 * started. */
typedef struct
{
  gatomicrefcount ref_count;   /* one of the user, one of the thread */
  LlmRepackedPlan *plan;       /* (owned) */
  guint8 *data;                /* the matrices; writable only in memory */

  guint8 *memory;              /* (nullable): start of the reservation, when in memory */
  gsize memory_bytes;
  guint n_threads;             /* number of threads that pack */
  guint64 n_packed;            /* bytes that are packed, from the beginning on */
  GThread *packing;            /* (nullable): packs dropped bytes again, */
  guint64 packing_end;         /* up to here */
  LlmStatus packed;            /* atomic: PENDING while it does */
  guint64 packed_again;        /* bytes so far */
  GError *error;               /* (nullable): the error, once packed is FAILED */

  LlmFileMap *map;             /* (nullable): of a file, whose memory the kernel can reclaim */
  guint64 *checksums;          /* (nullable): of the pieces, if they are still to be compared */
  char *path;                  /* (nullable) */
  char *part;                  /* (nullable): name of a file that is not called path yet */

  GMutex lock;
  GCond woken;
  gboolean is_closing;         /* guarded by lock: not used any more */
  gboolean keeps_cache;        /* likewise */
  gboolean is_dropped;         /* likewise: reading it now would bring back reclaimed pages */
} LlmRepacked;

/* In memory, packed now, in huge pages where possible. */
LlmRepacked     *llm_repacked_new_in_memory (LlmRepackedPlan    *plan,
                                          guint                  n_threads,
                                          GError               **error);
/* From a file, checked or just written; the caller fills in the other fields. */
LlmRepacked     *llm_repacked_new_for_map (LlmRepackedPlan      *plan,
                                          LlmFileMap            *map,
                                          const char            *path);
/* Starts the deferred work. Releases the rows of the model file that were packed or compared,
 * mapping and page cache. */
void             llm_repacked_start      (LlmRepacked           *self);
/* Releases the memory, page cache included unless @keeps_cache. */
void             llm_repacked_end        (LlmRepacked           *self,
                                          gboolean               keeps_cache);
static inline void
llm_repacked_free (LlmRepacked *self)
{
  llm_repacked_end (self, FALSE);
}

/* Of matrices in memory, on one thread: releases the pages from @first on, which is
 * page-aligned. */
void             llm_repacked_drop_memory (LlmRepacked          *self,
                                          guint64                first);
/* Begins to pack the missing part of the first @bytes again; PENDING while it lasts, or while a
 * smaller part is being packed. */
LlmStatus        llm_repacked_pack_again (LlmRepacked           *self,
                                          guint64                bytes);
/* Whether the first @bytes are packed; FAILED when they could not be packed again. */
LlmStatus        llm_repacked_await      (LlmRepacked           *self,
                                          guint64                bytes,
                                          GError               **error);
/* Of a file: deferred work pauses while some of it is dropped. */
void             llm_repacked_set_dropped (LlmRepacked          *self,
                                          gboolean               is_dropped);
/* The file is damaged: removes it, and lets steps fail. */
void             llm_repacked_set_damaged (LlmRepacked          *self);
/* Compares the checksums of a file if that is due, and records it; removes a damaged file. The last
 * work of the thread. */
void             llm_repacked_verify     (LlmRepacked           *self);

/* The extended attribute of files whose checksums were compared. */
#define LLM_REPACKED_VERIFIED "user.llmsvc.verified"

/* --- llm-repacked-cache.c --- */

/* Called before the cache is used: the file of @plan does not go for another one. */
void             llm_repacked_cache_spare (LlmRepackedCache     *self,
                                          const LlmRepackedPlan *plan);
/* (nullable): the weights of @plan from a folder, if they are there; nothing of them is read ahead until
 * llm_repacked_set_dropped() says that they are used. */
LlmRepacked     *llm_repacked_cache_find (LlmRepackedCache      *self,
                                          LlmRepackedPlan       *plan);
/* (nullable): the weights of @plan from a folder, or else packed now, into the folder; NULL where
 * no file can be kept, with @error set unless there is no folder. */
LlmRepacked     *llm_repacked_cache_get_file (LlmRepackedCache  *self,
                                          LlmRepackedPlan       *plan,
                                          guint                  n_threads,
                                          GError               **error);
/* The same, but where that fails into memory, if @ledger (nullable) has room. @self: (nullable):
 * always memory. */
LlmRepacked     *llm_repacked_cache_get  (LlmRepackedCache      *self,
                                          LlmRepackedPlan       *plan,
                                          guint                  n_threads,
                                          LlmLedger             *ledger,
                                          GError               **error) G_GNUC_WARN_UNUSED_RESULT;

/* Whether weights may be read from a file of @owner with @mode: only @self, the administrator or,
 * for the system's files, the user of the service can have written it. @service: (uid_t) -1 for
 * none. */
gboolean         llm_repacked_is_trusted (uid_t                  owner,
                                          mode_t                 mode,
                                          uid_t                  self,
                                          uid_t                  service);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmRepackedPlan, llm_repacked_plan_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmRepacked, llm_repacked_free)
