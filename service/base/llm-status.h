/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a step says that may have to wait: for weights that stream in, for
 * context memory that is being brought back. Nothing that returns an LlmStatus
 * blocks for I/O; LLM_PENDING means "call again, nothing was lost".
 */

#pragma once

typedef enum
{
  LLM_READY,
  LLM_PENDING,
  LLM_FAILED,
} LlmStatus;
