/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Weights by segment: the part of one operator of one layer that one level of
 * the sub-models adds. Everything that multiplies asks here and gives the view
 * back; whether the bytes are resident, stream in, or are only the active
 * channels is the provider's business. What a view shows stays in memory until it
 * is given back, even if memory is reclaimed meanwhile: several steps hold views
 * of the same weights.
 *
 * The table of the provider is immutable; acquire and release belong to the
 * executor's thread.
 */

#pragma once

#include "memory/llm-ledger.h"
#include "base/llm-status.h"
#include "io/llm-file-map.h"
#include "model/architectures/llm-sub-models.h"
#include "weights/llm-weight-stream.h"

/* What is known of the input when weights are asked for: a provider that loads
 * only active channels looks at it (A1). */
typedef struct
{
  const float *values;  /* (nullable) [n_rows × n_in] */
  guint n_rows;
} LlmActivation;

typedef enum
{
  LLM_LAYOUT_ROWS,    /* as a file stores it: output j at data + j * row_bytes */
  LLM_LAYOUT_PANELS,  /* as products read it (kernels/llk-panel.h) */
} LlmWeightLayout;

/* A segment covers outputs [out_first, out_first + out_count) of inputs
 * [in_first, in_first + in_count). In rows, @data is the block of output out_first
 * that holds input in_first, which need not be the block's first. In panels,
 * out_first is a multiple of LLK_PANEL_OUTPUTS, and @data is a matrix of its own. */
typedef struct
{
  const void *data;
  LlkType type;
  LlmWeightLayout layout;
  gsize row_bytes;         /* of rows */
  guint in_first, in_count;
  guint out_first, out_count;
  const guint32 *channels; /* (nullable): the inputs that are there, in_count of them */
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
  /* Fills in @view, or says that it must wait; a view without data is an operator
   * that the model lacks, or to which @segment adds nothing. */
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
  /* Whether the bytes handed out so far were the file's: FALSE after damage. */
  gboolean  (*check)   (LlmWeights    *self,
                        GError       **error);
  void      (*free)    (LlmWeights    *self);
} LlmWeightProvider;

/* llm-levels.h */
typedef struct _LlmLevels LlmLevels;

/* What every provider starts with. */
struct _LlmWeights
{
  const LlmWeightProvider *provider;
  const LlmSubModels *sub_models;      /* segment i is what level i adds */
  LlmLevels *levels;                   /* (nullable) (owned): whose table that is */
  guint64 bytes;                       /* of weights in all */
  guint64 held;                        /* of these, not reclaimed */
  guint64 backed;                      /* of those, memory of files */
  guint64 absent;                      /* of backed, not in memory, as the kernel last said */
  gboolean keeps_cache;                /* freeing leaves the files in the page cache: set when the
                                        * process ends, as the next one wants them at once */
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

/* Whether experts of @layer come one by one now; where not, those of all are acquired as one operator.
 * @n_rows: rows that chose each expert, [n_experts]: all that are not there are read from now on, as
 * far as there is room. NULL: before it is known, or when the step leaves the layer. */
static inline gboolean
llm_weights_choose_experts (LlmWeights  *self,
                            guint        layer,
                            const guint *n_rows)
{
  return self->provider->choose_experts != NULL
         && self->provider->choose_experts (self, layer, n_rows);
}

/* As llm_weights_acquire(), of EXPERT_GATE, EXPERT_UP and EXPERT_DOWN of one expert, whose first output
 * is output 0; each of the three @views is released. Only once llm_weights_choose_experts() said
 * that they come one by one. */
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
 * that what remains of a model whose end was reclaimed is the beginning of a sub-model. Layers of a
 * file of packed weights come in an order in which those that stay lie evenly between the others.
 * What is whole is in segment 0: the embedding and what else no layer has, then layers, then the
 * output; of a file of packed weights experts come last of all. In
 * a GGUF file, inputs of one output lie side by side, so that most pages have some of several
 * segments: there operators that are cut by inputs are whole in segment 0, too. */

/* Gives memory of the weights back, the end in that order first: @bytes that are in memory, or a
 * little more. The model stays usable: what is used is read again, or made again while acquire()
 * says PENDING. What is in a view goes when the last view of it is released, and counts until then.
 * Returns the bytes that went now. */
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
/* The same as llm_weights_drop(), of what lies behind the first @bytes. */
guint64     llm_weights_drop_behind (LlmWeights    *self,
                                     guint64        bytes);
/* How many of the first @bytes were dropped. */
guint64     llm_weights_count_dropped (LlmWeights  *self,
                                     guint64        bytes);
/* Counts what was dropped of the first @bytes as held again, and begins to make again what is no
 * file's. */
LlmStatus   llm_weights_take        (LlmWeights    *self,
                                     guint64        bytes);
/* Has the system read @bytes from @at on, counted in the order above; FALSE behind the end. */
gboolean    llm_weights_read_ahead  (LlmWeights    *self,
                                     guint64        at,
                                     guint64        bytes);

/* Of weights that stream: memory of experts, which come one by one. Also in the middle of steps; it
 * comes back in the course of those that follow. Returns the bytes that went. */
guint64     llm_weights_drop_experts (LlmWeights   *self,
                                     guint64        bytes);
/* Where not all weights fit into memory: from now on those behind the first @bytes go after their
 * use; G_MAXUINT64 for none. Where they stream, as many bytes as experts have of the first @bytes
 * are room for those that are chosen most. Also in the middle of steps. Weights that are held stay counted as
 * such. After llm_weights_stream() those of a packed file stream; elsewhere the kernel reads them
 * from their mapping when they are used. */
void        llm_weights_keep        (LlmWeights    *self,
                                     guint64        bytes);
/* Bytes at the beginning of that order of which a step uses little: rows of the model file itself. */
guint64     llm_weights_get_sparse_bytes (LlmWeights *self);
/* How weights of a packed file stream where not all stay (C4), from now on; @source stays until the
 * next such call. NULL: they don't any more. FALSE where there is no such file, or it can't be
 * opened once more. Not while views are held. */
gboolean    llm_weights_stream      (LlmWeights    *self,
                                     const LlmWeightSource *source,
                                     const LlmStreamConfig *config);
/* Whether some of them stream now. */
gboolean    llm_weights_are_streaming (LlmWeights  *self);
/* How many steps go through one pass together: see llm_weight_stream_set_readers(). */
void        llm_weights_set_readers (LlmWeights    *self,
                                     guint          n_readers);
/* Takes what has arrived of what streams, and goes on reading: for what waits on the source. */
void        llm_weights_poll        (LlmWeights    *self);
/* All zero where nothing streams. */
void        llm_weights_get_stream_figures (LlmWeights *self,
                                     LlmStreamFigures *figures);

/* Bytes of weights that were copied since these were made: packed again, or read by the stream. */
guint64     llm_weights_count_copied (LlmWeights   *self);

/* (element-type LlmWeightPiece) (transfer full): where the backed bytes are. */
GArray     *llm_weights_list_pieces (LlmWeights    *self);
/* Bytes of them in memory, as the kernel says. Takes some milliseconds. Any thread. */
guint64     llm_weights_count_resident (GArray     *pieces);
/* Notes what llm_weights_count_resident() found. */
void        llm_weights_set_resident (LlmWeights   *self,
                                     LlmLedger     *ledger,
                                     guint64        bytes);
/* For providers: what is held now, of that, of files, and of that, not in memory (at most
 * @backed); told to @ledger (nullable). */
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
/* Provider: all tensors of the file, memory-mapped. Checks the presence, shape
 * and type of every tensor the forward pass will use. @hparams outlives it, and so
 * does @sub_models (nullable): NULL for the whole model. Counts its bytes in
 * @ledger (nullable) as LLM_HOLDER_WEIGHTS until freed; freeing gives the file's
 * pages back to the system, but for keeps_cache. */
LlmWeights *llm_weights_new_mapped  (LlmGguf           *gguf,
                                     const LlmHparams  *hparams,
                                     const LlmSubModels *sub_models,
                                     LlmLedger         *ledger,
                                     GError           **error) G_GNUC_WARN_UNUSED_RESULT;

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmWeights, llm_weights_free)
