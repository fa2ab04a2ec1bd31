/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The prepared copy of a model's matrices, packed into panels (kernels/llk-panel.h)
 * in the order in which the forward pass reads them: where each lies, and the head
 * of the file that holds them. The plan follows from the model file alone; a
 * prepared file is good when its head is the one that the plan demands, so nothing
 * in it is ever taken at its word. Immutable once made; any thread.
 *
 * The file: header, table of matrices, checksums of its pieces, zeros up to a
 * multiple of a huge page, then the matrices, each at a multiple of 4 KiB. Numbers
 * are in the byte order of the machine. Its time of modification is one that the
 * header names: whoever writes into the file changes it.
 */

#pragma once

#include "model/architectures/llm-operator.h"

G_BEGIN_DECLS

/* Bytes of the matrices that are packed, written and checked at a time: two huge pages. */
#define LLM_PREPARED_PIECE ((guint64) 4 << 20)

typedef struct
{
  LlmOperator op;
  guint layer;
  LlmTensorPart part;   /* where the rows are */
  guint64 offset;       /* of the first panel, from the first matrix on */
  gsize panel_bytes;
  guint n_panels;
} LlmPreparedMatrix;

typedef struct
{
  GArray *matrices;         /* (element-type LlmPreparedMatrix), by offset */
  guint *places;            /* [n_layers × LLM_N_OPS]: index in matrices + 1, 0 for none */
  const LlmGgufTensor *embedding; /* stays in use by rows, also when it is packed */
  guint64 bytes;            /* of all matrices, with the gaps between them */
  guint n_pieces;
  guint64 data_offset;      /* of the first matrix in the file */
  guint64 file_bytes;
  LlmFileIdentity source;   /* of the model file; all zero for one in memory */
  guint64 source_hash;      /* of its header */
  guint64 source_weights;   /* of a sample of its weights */
  guint64 layout;           /* fingerprint of the panels that this program packs */
} LlmPreparedPlan;

/* @gguf must have passed llm_operator_check_all(). */
LlmPreparedPlan *llm_prepared_plan_new   (LlmGguf               *gguf,
                                          const LlmHparams      *hparams,
                                          GError               **error) G_GNUC_WARN_UNUSED_RESULT;
void             llm_prepared_plan_free  (LlmPreparedPlan       *self);

/* (nullable): NULL for an operator that is not packed. */
const LlmPreparedMatrix *
                 llm_prepared_plan_find  (const LlmPreparedPlan *self,
                                          LlmOperator            op,
                                          guint                  layer);

/* (transfer full): the name of the model's file in a cache folder. */
char            *llm_prepared_plan_get_name (const LlmPreparedPlan *self);

/* (transfer full): the head of the file. @checksums: of the pieces, n_pieces of
 * them; @modified_s: the time that the file will say it was modified; @boot: of
 * llm_prepared_get_boot(). */
GBytes          *llm_prepared_head_new   (const LlmPreparedPlan *self,
                                          const guint64         *checksums,
                                          gint64                 modified_s,
                                          guint64                boot);

/* What a good head says beyond what the plan does. */
typedef struct
{
  gint64 modified_s;
  guint64 boot;              /* which start of the machine it was written in */
  const guint64 *checksums;  /* within the head */
} LlmPreparedHead;

/* Whether @data, of @size bytes, is a file of this plan; (out) @head is filled in.
 * @reason: (out): why not, for a log. Does not read the matrices. */
gboolean         llm_prepared_head_check (const LlmPreparedPlan *self,
                                          const guint8          *data,
                                          guint64                size,
                                          LlmPreparedHead       *head,
                                          const char           **reason);

/* Bytes of piece @piece, the last of which may be short. */
gsize            llm_prepared_plan_get_piece (const LlmPreparedPlan *self,
                                          guint                  piece);
guint64          llm_prepared_checksum   (gconstpointer          data,
                                          gsize                  size);
/* Names this start of the machine. */
guint64          llm_prepared_get_boot   (void);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmPreparedPlan, llm_prepared_plan_free)

G_END_DECLS
