/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Weights by segment: the part of one operator of one layer that one level of the sub-models adds.
 * All code that multiplies acquires views here and releases them; whether the bytes are resident,
 * stream in, or are only the active channels is the provider's business. The bytes of a view stay
 * in memory until it is released, even if memory is reclaimed meanwhile: several steps hold views
 * of the same weights.
 *
 * The table of the provider is immutable; acquire and release belong to the executor's thread.
 */

#pragma once

#include "memory/llm-ledger.h"
#include "base/llm-status.h"
#include "io/llm-file-map.h"
#include "model/architectures/llm-sub-models.h"
#include "weights/llm-weight-stream.h"

/* The input for which weights are acquired: a provider that loads only active channels looks at it
 * (A1). */
typedef struct
{
  const float *values;  /* (nullable) [n_rows × n_in] */
  guint n_rows, n_in;
  guint sparsity;       /* percent that each row leaves out at least: what is zero in all of them is
                         * not needed; 0 where one leaves out nothing */
} LlmActivation;

typedef enum
{
  LLM_LAYOUT_ROWS,    /* as a file stores it: output j at data + j * row_bytes */
  LLM_LAYOUT_PANELS,  /* as products read it (kernels/llk-panel.h) */
  LLM_LAYOUT_CHANNELS, /* by input (kernels/llk-channels.h) */
} LlmWeightLayout;

/* A segment covers outputs [out_first, out_first + out_count) of inputs
 * [in_first, in_first + in_count). In rows, @data is the block of output out_first
 * that holds input in_first, which need not be the block's first. In panels,
 * out_first is a multiple of LLK_PANEL_OUTPUTS, and @data is a matrix of its own. By channel,
 * likewise, @data is the heads of its panels, and @codes what there is of its inputs; rows that it
 * is multiplied with are zero at the others. */
typedef struct
{
  const void *data;
  LlkType type;
  LlmWeightLayout layout;
  gsize row_bytes;         /* of rows; by channel, of the heads of a panel */
  guint in_first, in_count;
  guint out_first, out_count;
  const guint32 *channels; /* (nullable): the inputs that it has, in_count of them */
  const guint8 *codes;     /* by channel: of the first panel */
  const guint32 *codes_at; /* likewise, [in_count]: as llk_channels_gather() has them */
  gpointer lease;          /* the provider's own */
} LlmWeightView;

typedef struct _LlmWeights LlmWeights;

/* A part of a file that is weights. */
typedef struct
{
  LlmFileMap *map;   /* (owned) */
  guint64 offset;
  guint64 length;
} LlmWeightPiece;

typedef struct
{
  /* Fills in @view, or returns PENDING; a view without data is an operator that the model lacks, or
   * to which @segment adds nothing. */
  LlmStatus (*acquire) (LlmWeights          *self,
                        LlmOperator          op,
                        guint                layer,
                        guint                segment,
                        const LlmActivation *activation,
                        LlmWeightView       *view,
                        GError             **error);
  void      (*release) (LlmWeights    *self,
                        LlmWeightView *view);
  /* (nullable), with the next: see llm_weights_choose_experts() */
  gboolean  (*choose_experts) (LlmWeights  *self,
                        guint          layer,
                        const guint   *n_rows);
  LlmStatus (*acquire_expert) (LlmWeights  *self,
                        guint          layer,
                        guint          expert,
                        LlmWeightView *views,
                        GError       **error);
  /* FALSE when the file was damaged while bytes of it were used. */
  gboolean  (*check)   (LlmWeights    *self,
                        GError       **error);
  void      (*free)    (LlmWeights    *self);
} LlmWeightProvider;

/* llm-levels.h */
typedef struct _LlmLevels LlmLevels;
/* llm-channels.h */
typedef struct _LlmChannels LlmChannels;

/* What every provider starts with. */
struct _LlmWeights
{
  const LlmWeightProvider *provider;
  const LlmSubModels *sub_models;      /* segment i is the part that level i adds */
  LlmLevels *levels;                   /* (nullable) (owned): whose table that is */
  guint64 bytes;                       /* of weights in all */
  guint64 held;                        /* of these, not reclaimed */
  guint64 backed;                      /* of those, memory of files */
  guint64 absent;                      /* of backed, not in memory, as the kernel last said */
  gboolean keeps_cache;                /* freeing leaves the files in the page cache: set when the
                                        * process ends, because the next one uses them at once */
};

static inline LlmStatus
llm_weights_acquire (LlmWeights          *self,
                     LlmOperator          op,
                     guint                layer,
                     guint                segment,
                     const LlmActivation *activation,
                     LlmWeightView       *view,
                     GError             **error)
{
  return self->provider->acquire (self, op, layer, segment, activation, view, error);
}

static inline void
llm_weights_release (LlmWeights    *self,
                     LlmWeightView *view)
{
  self->provider->release (self, view);
}

/* Whether experts of @layer are read one by one now; if not, all experts are acquired as one
 * operator. @n_rows: rows that chose each expert, [n_experts]: begins to read all missing ones, as
 * far as they fit. NULL: before the choice is known, or when the step leaves the layer. */
static inline gboolean
llm_weights_choose_experts (LlmWeights  *self,
                            guint        layer,
                            const guint *n_rows)
{
  return self->provider->choose_experts != NULL
         && self->provider->choose_experts (self, layer, n_rows);
}

/* As llm_weights_acquire(), of EXPERT_GATE, EXPERT_UP and EXPERT_DOWN of one expert, whose first
 * output is output 0; each of the three @views is released. Only if llm_weights_choose_experts()
 * returned TRUE for the layer. */
static inline LlmStatus
llm_weights_acquire_expert (LlmWeights    *self,
                            guint          layer,
                            guint          expert,
                            LlmWeightView *views,
                            GError       **error)
{
  return self->provider->acquire_expert (self, layer, expert, views, error);
}

static inline gboolean
llm_weights_check (LlmWeights  *self,
                   GError     **error)
{
  return self->provider->check (self, error);
}

void        llm_weights_free        (LlmWeights    *self);

/* --- llm-weights-file.c: of those of a file alone --- */

/* Weights have an order in which they stay: segment after segment, in each layer after layer, so
 * that the rest of a model whose end was reclaimed is the beginning of a sub-model. Layers of a
 * repacked file are ordered so that those that stay are evenly spread among the others. Operators
 * that are not cut are in segment 0: the embedding and others outside of layers, then layers, then
 * the output; in a repacked file experts come last of all. In a GGUF file, the inputs of one output
 * are side by side, so that most pages hold parts of several segments: there operators that are cut
 * by inputs are whole in segment 0, too. */

/* Releases memory of the weights, from the end of that order: @bytes that are in memory, or a
 * little more. The model stays usable: dropped bytes are read again, or repacked again while
 * acquire() says PENDING. The bytes of a view are released with its last view, and count until
 * then. Returns the bytes freed now. */
guint64     llm_weights_drop        (LlmWeights    *self,
                                     guint64        bytes);

/* Bytes in memory, as the kernel last said. */
static inline guint64
llm_weights_get_resident (const LlmWeights *self)
{
  return self->held - self->absent;
}

/* Bytes in that order, from the first on, that @level of the sub-models needs. */
guint64     llm_weights_get_level_bytes (LlmWeights *self,
                                     guint          level);
/* The same as llm_weights_drop(), for all after the first @bytes. */
guint64     llm_weights_drop_behind (LlmWeights    *self,
                                     guint64        bytes);
/* How many of the first @bytes were dropped. */
guint64     llm_weights_count_dropped (LlmWeights  *self,
                                     guint64        bytes);
/* Counts the dropped part of the first @bytes as held again, and begins to repack weights that are
 * in no file. */
LlmStatus   llm_weights_take        (LlmWeights    *self,
                                     guint64        bytes);
/* Has the system read @bytes from @at on, counted in the order above; FALSE past the end. */
gboolean    llm_weights_read_ahead  (LlmWeights    *self,
                                     guint64        at,
                                     guint64        bytes);

/* Of weights that stream: releases memory of experts, which are read one by one. Also in the middle
 * of steps; later steps take it again. Returns the bytes freed. */
guint64     llm_weights_drop_experts (LlmWeights   *self,
                                     guint64        bytes);
/* When not all weights fit into memory: from now on those after the first @bytes are released after
 * their use; G_MAXUINT64 for none. Where they stream, the expert cache gets as many bytes as
 * experts have among the first @bytes. Also in the middle of steps. Held weights stay counted as
 * such. After llm_weights_stream() those of a repacked file stream; elsewhere the kernel reads them
 * from their mapping when they are used. */
void        llm_weights_keep        (LlmWeights    *self,
                                     guint64        bytes);
/* Whether all weights of @level stay in memory from one use to the next. */
gboolean    llm_weights_level_stays (LlmWeights    *self,
                                     guint          level);
/* Bytes at the beginning of that order of which a step uses little: rows of the model file
 * itself. */
guint64     llm_weights_get_sparse_bytes (LlmWeights *self);
/* Streams weights of a repacked file that do not all stay (C4), from now on; @source must stay
 * until the next such call. NULL: they don't stream any more. FALSE if it is no such file, or can't
 * be opened once more. Not while views are held. */
gboolean    llm_weights_stream      (LlmWeights    *self,
                                     const LlmWeightSource *source,
                                     const LlmStreamConfig *config);
/* Whether some of them stream now. */
gboolean    llm_weights_are_streaming (LlmWeights  *self);
/* (transfer full): from now on what streams is read by channel where rows are sparse. Freed with these,
 * whose model, sub-models and cache it is of; ignored if there are some already. */
void        llm_weights_set_channels (LlmWeights   *self,
                                     LlmChannels    *channels);
/* Whether what sparse rows leave out is not read: their weights stream, and there are channels. */
gboolean    llm_weights_are_by_channel (LlmWeights *self);
/* What a pass of rows of such a sparsity takes; 0 before there were enough of them to tell. */
double      llm_weights_get_sparse_us (LlmWeights  *self,
                                     guint          sparsity);
/* How many steps share a pass: see llm_weight_stream_set_readers(). */
void        llm_weights_set_readers (LlmWeights    *self,
                                     guint          n_readers);
/* Takes arrived reads of what streams, and continues reading: for callers that wait on the
 * source. */
void        llm_weights_poll        (LlmWeights    *self);
/* All zero when nothing streams. */
void        llm_weights_get_stream_figures (LlmWeights *self,
                                     LlmStreamFigures *figures);

/* Bytes of weights that were copied since these were made: repacked again, or read by the
 * stream. */
guint64     llm_weights_count_copied (LlmWeights   *self);

/* (element-type LlmWeightPiece) (transfer full): where the backed bytes are. */
GArray     *llm_weights_list_pieces (LlmWeights    *self);
/* Bytes of them in memory, as the kernel says. Takes some milliseconds. Any thread. */
guint64     llm_weights_count_resident (GArray     *pieces);
/* Records the result of llm_weights_count_resident(). */
void        llm_weights_set_resident (LlmWeights   *self,
                                     LlmLedger     *ledger,
                                     guint64        bytes);
/* For providers: sets the bytes held now; of them those of files; and of those, the ones not in
 * memory (at most @backed); counts them in @ledger (nullable). */
void        llm_weights_set_held    (LlmWeights    *self,
                                     LlmLedger     *ledger,
                                     guint64        held,
                                     guint64        backed,
                                     guint64        absent);
/* Likewise: (element-type LlmWeightPiece) (transfer full): none yet; appends a piece. */
GArray     *llm_weights_new_pieces  (void);
void        llm_weights_add_piece   (GArray        *pieces,
                                     LlmFileMap    *map,
                                     guint64        offset,
                                     guint64        length);
/* Likewise: (transfer full): where every operator lies in the file, [n_layers × LLM_N_OPS], shared
 * ones in layer 0; all checked. */
LlmTensorPart *
            llm_weights_find_parts  (LlmGguf       *gguf,
                                     const LlmHparams *hparams,
                                     GError       **error) G_GNUC_WARN_UNUSED_RESULT;
/* Provider: all tensors of the file, memory-mapped. Checks the presence, shape and type of every
 * tensor the forward pass will use. @hparams outlives it, and so does @sub_models (nullable): NULL
 * for the whole model. Counts its bytes in @ledger (nullable) as LLM_HOLDER_WEIGHTS until freed;
 * freeing releases the file's pages, unless keeps_cache is set. */
LlmWeights *llm_weights_new_mapped  (LlmGguf           *gguf,
                                     const LlmHparams  *hparams,
                                     const LlmSubModels *sub_models,
                                     LlmLedger         *ledger,
                                     GError           **error) G_GNUC_WARN_UNUSED_RESULT;

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmWeights, llm_weights_free)
