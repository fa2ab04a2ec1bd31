/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Random arguments for calls on the bus: of the type that is asked for, with sensible, extreme
 * and silly values; options with the keys of the table; values of random types. The same seed
 * gives the same values. What is made lives on its own; one thread.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* What a value may be about. All (nullable), of strings, owned by the caller. */
typedef struct
{
  GRand *random;
  GPtrArray *paths;   /* objects that are there, or were */
  GPtrArray *names;   /* of contexts, applications and models */
  guint max_text;     /* bytes of the longest text, and of the largest array */
  gboolean is_polite; /* values as their receiver wants them, as far as is known here */
} FuzzBusHints;

/* (transfer floating): a value of this type. An `a{sv}` gets keys of the table of options. */
GVariant *fuzz_bus_value        (const FuzzBusHints *hints,
                                 const GVariantType *type);
/* (transfer floating): a value of a random type. */
GVariant *fuzz_bus_any_value    (const FuzzBusHints *hints);
/* (transfer full): valid UTF-8 without NUL. */
char     *fuzz_bus_text         (const FuzzBusHints *hints);
/* (transfer full): a valid object path, mostly one of the service. */
char     *fuzz_bus_path         (const FuzzBusHints *hints);
/* TRUE @percent times out of a hundred. */
gboolean  fuzz_bus_chance       (const FuzzBusHints *hints,
                                 guint               percent);
/* 0, …, @n - 1; 0 when @n is 0. */
guint     fuzz_bus_below        (const FuzzBusHints *hints,
                                 guint               n);

G_END_DECLS
