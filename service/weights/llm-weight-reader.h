/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reads pieces of a file of weights into memory of the caller, past the page cache where that can be, in
 * whole blocks and as many requests as a piece takes. What is read when, and where it stays, is up to
 * those above: a ring in the order of a pass (llm-weight-stream.h), slots of experts
 * (llm-expert-cache.h), bundles of channels (llm-channels.h).
 *
 * One thread: that of the queue that reads.
 */

#pragma once

#include "base/llm-status.h"
#include "weights/llm-weight-source.h"

typedef struct _LlmWeightReader LlmWeightReader;
typedef struct _LlmReadPiece LlmReadPiece;

/* All of @piece has been answered. */
typedef void (*LlmReadPieceDone) (LlmReadPiece *piece);

struct _LlmReadPiece
{
  guint64 offset;        /* of the first block that holds it */
  gsize skipped;         /* bytes of that block before it */
  gsize needed;          /* bytes from offset on */
  gsize bytes;           /* in whole blocks */
  gpointer owner;
  int code;              /* behind done(): 0, or why it was not read: an errno, ENODATA for a truncated file,
                          * ECANCELED where reading has ended */
  guint n_reading;       /* requests that are not answered */

  /* < private > */
  LlmWeightReader *reader;
  LlmReadPieceDone done;
  gsize n_read;
  guint place;           /* among those under way */
};

/* @block: the size of blocks: LLM_DISK_BLOCK; or LLM_DISK_SECTOR for small pieces, with two blocks around
 * them not above LLM_DISK_MAX_BYTES. */
void             llm_read_piece_init        (LlmReadPiece          *piece,
                                             guint64                offset,
                                             guint64                length,
                                             gsize                  block,
                                             gpointer               owner);

/* Reads the file of @fd, which it opens again; @name (copied) is for messages. NULL where that can't
 * be. It reads nothing without a source. */
LlmWeightReader *llm_weight_reader_new      (int                    fd,
                                             const char            *name) G_GNUC_WARN_UNUSED_RESULT;
/* Waits for reads under way. */
void             llm_weight_reader_free     (LlmWeightReader       *self);
/* @source: (nullable) (copied). Nothing may be under way. */
void             llm_weight_reader_set_source (LlmWeightReader     *self,
                                             const LlmWeightSource *source);
gboolean         llm_weight_reader_has_source (LlmWeightReader     *self);

/* Begins to read @piece, which must stay until done(), into @memory [piece->bytes], aligned as blocks
 * are. */
void             llm_weight_reader_read     (LlmWeightReader       *self,
                                             LlmReadPiece          *piece,
                                             guint8                *memory,
                                             LlmReadPieceDone       done);
/* Takes what has arrived. */
void             llm_weight_reader_poll     (LlmWeightReader       *self);
/* Waits until something has, a second at most. */
void             llm_weight_reader_wait     (LlmWeightReader       *self);
/* Pieces that were not begun are done with ECANCELED; waits for the others. Their done() must begin no
 * other. */
void             llm_weight_reader_stop     (LlmWeightReader       *self);
/* Requests under way. */
guint            llm_weight_reader_count    (LlmWeightReader       *self);
/* Bytes that have arrived so far. */
guint64          llm_weight_reader_get_bytes (LlmWeightReader      *self);
/* Tells why @piece could not be read. Returns FAILED. */
LlmStatus        llm_weight_reader_fail     (LlmWeightReader       *self,
                                             const LlmReadPiece    *piece,
                                             GError               **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmWeightReader, llm_weight_reader_free)
