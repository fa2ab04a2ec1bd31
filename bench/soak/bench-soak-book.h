/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a caller knows of one of its contexts: the turns that were acknowledged, and one that may
 * have been kept or not because the caller left, or the service died, in the middle. What the
 * service holds is compared with it. Owned by its maker; one thread at a time.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _BenchBook BenchBook;

BenchBook *bench_book_new            (void);
void       bench_book_free           (BenchBook   *self);
/* The context is a new one that begins with @system (nullable), at this revision. */
void       bench_book_begin          (BenchBook   *self,
                                      const char  *system,
                                      guint64      revision);

/* A turn was acknowledged: what was said, and the answer (nullable). */
void       bench_book_add            (BenchBook   *self,
                                      const char  *said,
                                      const char  *answer);
void       bench_book_roll_back      (BenchBook   *self,
                                      guint        n);
/* The same, but nobody knows whether it has happened. @answered: an answer of unknown text belongs
 * to the turn. */
void       bench_book_doubt_add      (BenchBook   *self,
                                      const char  *said,
                                      gboolean     answered);
void       bench_book_doubt_roll_back (BenchBook  *self,
                                      guint        n);

guint64    bench_book_get_revision   (BenchBook   *self);
/* Turns that a rollback could take. */
guint      bench_book_get_n_turns    (BenchBook   *self);

/* @messages: `a(ssa{sv})`. FALSE with @error when they are not what was acknowledged, nor that and
 * what is in doubt; otherwise the doubt is settled. */
gboolean   bench_book_compare        (BenchBook   *self,
                                      GVariant    *messages,
                                      guint64      revision,
                                      GError     **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchBook, bench_book_free)

G_END_DECLS
