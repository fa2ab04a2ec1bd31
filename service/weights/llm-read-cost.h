/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What reads cost on this storage: so much each, and so much a byte, by least squares over what was
 * read lately. Zero-initialized.
 */

#pragma once

typedef struct
{
  /* sums of products of requests, bytes and microseconds, which decay */
  double nn, nb, bb, nt, bt;
  unsigned n;              /* that were added */
} LlmReadCost;

/* Requests that were under way together took so long until the last one was answered. */
void   llm_read_cost_add     (LlmReadCost *self,
                              unsigned     n_requests,
                              double       bytes,
                              double       us);
/* Bytes that take as long as one more request. */
double llm_read_cost_get_gap (const LlmReadCost *self);
/* Microseconds of one more request and of one more byte; of bytes alone where that is all that is known
 * so far. */
void   llm_read_cost_get     (const LlmReadCost *self,
                              double            *request_us,
                              double            *byte_us);
