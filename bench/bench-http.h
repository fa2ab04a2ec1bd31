/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The little of HTTP/1.1 that programs with a web interface are measured through: one request
 * on a connection of its own to this machine, whose answer comes in lines. Main thread, in the
 * default main context.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* A line of the answer without its end. */
typedef void (*BenchHttpLine) (const char   *line,
                               gpointer      data);
/* The answer has ended. @status: of HTTP, 0 when there was none. @error: (nullable): why it
 * is not whole. */
typedef void (*BenchHttpEnd)  (guint         status,
                               const GError *error,
                               gpointer      data);

/* Sends @body, JSON, to @path; without @body (nullable) asks for @path. Neither function is called
 * after @cancellable was cancelled, nor @line after @end; @free_data (nullable) is, in any case. */
void bench_http_request (guint16        port,
                         const char    *path,
                         const char    *body,
                         GCancellable  *cancellable,
                         BenchHttpLine  line,
                         BenchHttpEnd   end,
                         gpointer       data,
                         GDestroyNotify free_data);

/* Cuts a body in chunks (transfer coding "chunked") into lines. */
typedef struct _BenchHttpBody BenchHttpBody;

BenchHttpBody *bench_http_body_new  (void);
void           bench_http_body_free (BenchHttpBody *self);
/* Takes @length bytes, calls @line for each line that is whole. FALSE when the bytes are no
 * chunks, or a line is too long. */
gboolean       bench_http_body_push (BenchHttpBody *self,
                                     const char    *bytes,
                                     gsize          length,
                                     BenchHttpLine  line,
                                     gpointer       data);
/* Whether the last chunk has come. */
gboolean       bench_http_body_ends (BenchHttpBody *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchHttpBody, bench_http_body_free)

G_END_DECLS
