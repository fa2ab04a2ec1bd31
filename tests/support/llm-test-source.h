/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A disk for weights that stream, which answers in random order and late, and fails when it is told
 * to. What a request asked for is in memory only when it is answered. One thread.
 */

#pragma once

#include "weights/llm-weight-stream.h"

G_BEGIN_DECLS

typedef struct
{
  LlmWeightSource source;
  GArray *waiting;       /* of requests that are not answered */
  guint n_answered;
  guint n_most_waiting;
  guint n_late;          /* of 8 polls so many answer nothing; those that may wait always do */
  guint fails_in;        /* the how-manieth answer from now on is an error; 0: none is */
  gssize failure;        /* -errno, or bytes that are read: fewer than asked for */
} LlmTestSource;

LlmTestSource *llm_test_source_new  (void);
/* Nothing is waiting. */
void           llm_test_source_free (LlmTestSource *self);

G_END_DECLS
