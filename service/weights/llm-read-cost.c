/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-read-cost.h"

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

double
llm_read_cost_get_gap (const LlmReadCost *self)
{
  const double determinant = self->nn * self->bb - self->nb * self->nb;
  const double of_request = self->nt * self->bb - self->bt * self->nb;
  const double of_byte = self->bt * self->nn - self->nt * self->nb;

  /* little is known, or all were of one size */
  if (self->n < LEAST_KNOWN || determinant <= 1e-3 * self->nn * self->bb)
    return FIRST_GAP;
  if (of_request <= 0)
    return 0;
  return of_byte * MOST_GAP <= of_request ? MOST_GAP : of_request / of_byte;
}
