/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One question to the service and its answer to stdout, as it comes. */

#pragma once

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

typedef struct
{
  LlmctlBus which_bus;
  char *context_name;   /* (nullable) (owned) */
  char *system;         /* (nullable) (owned) */
  char *prompt;         /* (owned) */
  GVariant *options;    /* (owned): a{sv} of the call */
  gboolean is_raw;      /* by Complete, without a context */
  gboolean is_json;     /* lines of JSON to stdout */
  double timeout_s;     /* 0 for none */
} LlmctlQuestion;

/* Returns when the answer is whole or has failed, with all said that is to say. */
LlmctlExit llmctl_answer_run (const LlmctlQuestion *question);

G_END_DECLS
