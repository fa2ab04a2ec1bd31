/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-read-cost.h"

#include <stdbool.h>

/* Of what is known, with each that is added. */
#define DECAY 0.99
/* Before enough is known, and what is possible. */
#define FIRST_GAP 4096.0
#define MOST_GAP 32768.0
#define LEAST_KNOWN 8

void
llm_read_cost_add (LlmReadCost *self,
                   unsigned     n_requests,
                   double       bytes,
                   double       us)
{
  double n = n_requests;

  if (n_requests == 0)
    return;
  self->n++;
  self->nn = self->nn * DECAY + n * n;
  self->nb = self->nb * DECAY + n * bytes;
  self->bb = self->bb * DECAY + bytes * bytes;
  self->nt = self->nt * DECAY + n * us;
  self->bt = self->bt * DECAY + bytes * us;
}

/* FALSE while little is known, or all were of one size. */
static bool
solve (const LlmReadCost *self,
       double            *request_us,
       double            *byte_us)
{
  const double determinant = self->nn * self->bb - self->nb * self->nb;

  if (self->n < LEAST_KNOWN || determinant <= 1e-3 * self->nn * self->bb)
    return false;
  *request_us = (self->nt * self->bb - self->bt * self->nb) / determinant;
  *byte_us = (self->bt * self->nn - self->nt * self->nb) / determinant;
  return true;
}

void
llm_read_cost_get (const LlmReadCost *self,
                   double            *request_us,
                   double            *byte_us)
{
  if (solve (self, request_us, byte_us) && *request_us >= 0 && *byte_us >= 0)
    return;
  *request_us = 0;
  *byte_us = self->bb > 0 ? self->bt / self->bb : 0;
}

double
llm_read_cost_get_gap (const LlmReadCost *self)
{
  double request_us, byte_us;

  if (!solve (self, &request_us, &byte_us))
    return FIRST_GAP;
  if (request_us <= 0)
    return 0;
  return byte_us * MOST_GAP <= request_us ? MOST_GAP : request_us / byte_us;
}
