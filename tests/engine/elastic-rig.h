/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An engine whose model has sub-models: the shipped one, with a companion of three levels beside it:
 * 40, 70 and 100 percent. */

#pragma once

#include "engine-rig.h"

#define ELASTIC_MODEL "llmsvc-demo-8M-Q8_0.gguf"
#define ELASTIC_N_LEVELS 3

typedef struct
{
  Fixture fixture;
  char *models;         /* folder */
  gboolean has_cache;   /* prepared weights are a file's */
  char *root;           /* (nullable): folder of a made-up system whose memory the service watches */
} Elastic;

/* What is in fixture.state is found again. */
LlmEngine *elastic_start (Elastic *self);
/* Loses what storage has of contexts, while the engine is stopped. */
void elastic_remove_chunks (Elastic *self);
/* The companion's activation thresholds, where it has some, are for these percent. */
#define ELASTIC_SPARSITY 30
#define ELASTIC_HIGH_SPARSITY 50
/* @data: what is beside the model: NULL: a companion with sub-models; "active": one with activation
 * thresholds alone; "both"; "none"; "untried": sub-models that were tried with no tasks; "prefill": one
 * that is calibrated for prompts in W8A8, alone; "prefill-both": beside sub-models; "prefill-lossy":
 * with a loss; or one of the weights @data. */
void set_up_elastic (Elastic *self, gconstpointer data);
void tear_down_elastic (Elastic *self, gconstpointer data);
