/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A store over a folder of its own, and sequences beside a naive model of them: the
 * tokens. What a slot should hold follows from its token and its position; so a chunk that
 * was lost, moved or mixed up shows wherever it is looked at. One thread.
 */

#pragma once

#include "kv/llm-kv.h"

G_BEGIN_DECLS

#define RIG_LAYERS 4
#define RIG_HEADS 2
#define RIG_HEAD_DIM 16
#define RIG_SLOTS 16
#define RIG_VALUES (RIG_HEADS * RIG_HEAD_DIM)
#define RIG_MAX_TOKENS 1000
#define RIG_IDENTITY 77

typedef struct
{
  char *folder;
  LlmKvStorage *storage;      /* (nullable) */
  LlmLedger *ledger;
  LlmKvPolicy policy;
  LlmKvStore *store;
  const guint *windows;       /* (nullable) */
  LlkKvFormat format;
} Rig;

/* A sequence and what it should be. */
typedef struct
{
  Rig *rig;
  char id[16];
  LlmKvSeq *seq;
  gint32 tokens[RIG_MAX_TOKENS];        /* those that slid away too */
  guint places[RIG_MAX_TOKENS];         /* positions, until sinks move */
  guint8 is_rough[RIG_MAX_TOKENS];      /* may have been packed since it was computed */
  guint8 was_rough[RIG_MAX_TOKENS];     /* before the call */
  guint n_tokens;
  guint n_sinks;
  guint n_slid;

  /* the call that runs */
  guint length;               /* before it */
  guint n_new;
  guint layer;
  GArray *rows;               /* (element-type guint): slots that the step computes */
} Twin;

/* @policy: a name, or NULL to keep floats. @disk: "uring", "threads", or NULL for no storage. */
void  rig_open          (Rig        *rig,
                         const char *policy,
                         const char *disk,
                         LlkKvFormat format,
                         const guint *windows);
/* Like a service that ends and starts again: nothing in memory, storage as it is. */
void  rig_close_store   (Rig        *rig);
void  rig_open_store    (Rig        *rig);
void  rig_close         (Rig        *rig);
/* Works until there is nothing to do. */
void  rig_settle        (Rig        *rig);
/* Flips a byte in every file of the context's folder at @share of its length. */
guint rig_damage        (Rig        *rig,
                         const char *id,
                         double      share);
/* Where to compute costs nothing, all is computed that may be. */
void  rig_make_computing_cheap (Rig *rig);

void  twin_open         (Twin       *twin,
                         Rig        *rig,
                         const char *id);
/* What storage has of it, once that is known: the sequence's length. */
guint twin_attach       (Twin       *twin);
/* Random tokens. */
void  twin_add_tokens   (Twin       *twin,
                         guint       n);
void  twin_close        (Twin       *twin);
guint twin_length       (const Twin *twin);
/* What full chunks hold may be packed from now on. */
void  twin_make_rough   (Twin       *twin);

/* A call that appends @n_new tokens, which are added; in steps, so that others can come between. */
void  twin_begin        (Twin       *twin,
                         guint       n_new,
                         LlmKvPlan  *plan);
/* The next stage of it: FALSE when all layers have been. What its rows see is compared. */
gboolean twin_step      (Twin       *twin);
/* Ends the call, packs nothing. */
void  twin_end          (Twin       *twin);
/* All of it. */
void  twin_call         (Twin       *twin,
                         guint       n_new);
/* Leaves the call where it is: the new tokens are not there. */
void  twin_give_up      (Twin       *twin);

guint twin_bits         (Twin       *twin,
                         guint       chunk);
/* Bits and place of every chunk, as "8 4 - " with a '-' for what is nowhere, an 's' behind what
 * is on storage, in brackets what is there alone. */
char *twin_map          (Twin       *twin);

/* What the slot's K (or V) of a layer should be, [RIG_VALUES]. */
void  twin_expect       (const Twin *twin,
                         guint       layer,
                         guint       slot,
                         gboolean    is_value,
                         float      *values);

G_END_DECLS
