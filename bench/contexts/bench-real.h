/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Measurements in real time: a real model, the real forward pass, a real store on the real disk.
 * One engine for each model.
 */

#pragma once

#include "bench-engine.h"
#include "bench-peer.h"
#include "contexts/bench-replay.h"

G_BEGIN_DECLS

/* Rows of a question. */
#define BENCH_N_NEW 32

typedef struct
{
  BenchParts *parts;
  const BenchModelShape *shape;
  const LlmKvPolicy *policy;
  const char *model;
  BenchEngine *engine;
  BenchPeer *peer;       /* (nullable) */
  JsonObject *json;      /* of the part */
} BenchReal;

typedef gboolean (*BenchRealFunc) (BenchReal *self,
                                   GError   **error);

/* Sets the member @name, to which @run adds what it finds for each model and policy. */
gboolean bench_real_run  (BenchParts       *parts,
                          BenchPeer        *peer,
                          const char       *name,
                          BenchRealFunc     run,
                          GError          **error);
/* A question of @n_new tokens behind what @sequence has, wherever that is. Microseconds from its
 * begin to the first logits; the call goes on. */
gboolean bench_real_ask  (BenchReal        *self,
                          LlmKvSeq         *sequence,
                          guint             n_new,
                          double           *us,
                          GError          **error);

G_END_DECLS
