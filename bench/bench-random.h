/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Random numbers that are the same on every machine for the same seed (splitmix64, by
 * Steele, Lea and Flood). A state of its own for each user; any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  guint64 state;
} BenchRandom;

static inline guint64
bench_random_next (BenchRandom *self)
{
  guint64 x = self->state += G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);

  x = (x ^ (x >> 30)) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* At least 0, less than 1. */
static inline double
bench_random_get (BenchRandom *self)
{
  return (double) (bench_random_next (self) >> 11) / 9007199254740992.0;
}

/* @least, …, @most. */
static inline guint
bench_random_range (BenchRandom *self,
                    guint        least,
                    guint        most)
{
  return least + (guint) (bench_random_get (self) * (most - least + 1));
}

/* A state that has nothing to do with others of the same seed. */
static inline BenchRandom
bench_random_derive (guint64 seed,
                     guint64 purpose)
{
  BenchRandom self = { seed };

  self.state = bench_random_next (&self) ^ (purpose * G_GUINT64_CONSTANT (0xd1342543de82ef95));
  bench_random_next (&self);
  return self;
}

G_END_DECLS
