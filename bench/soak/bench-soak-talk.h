/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Calls of the service that wait for their replies, and answers that stream, as threads of a
 * benchmark with many callers make them. Any thread, one at a time for a stream.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* How long a call may take before it has failed; what is measured is measured by its caller. */
#define BENCH_TALK_TIMEOUT_MS 180000

/* (transfer full) (nullable): a caller of its own, registered under @app_id (nullable). */
GDBusConnection *bench_talk_connect     (const char      *address,
                                         const char      *app_id,
                                         GError         **error);
/* (transfer full) (nullable): the reply, of this type. */
GVariant        *bench_talk_call        (GDBusConnection *connection,
                                         const char      *path,
                                         const char      *interface,
                                         const char      *method,
                                         GVariant        *arguments,
                                         const char      *type,
                                         GError         **error);
/* (transfer full) (nullable) */
GVariant        *bench_talk_get         (GDBusConnection *connection,
                                         const char      *path,
                                         const char      *interface,
                                         const char      *property,
                                         GError         **error);
/* (transfer full): "ContextFull", or the whole name of an error of others. */
char            *bench_talk_error_name  (const GError    *error);
/* (transfer floating): one message of the user. */
GVariant        *bench_talk_message     (const char      *text);
/* (transfer floating): no options. */
GVariant        *bench_talk_no_options  (void);

typedef struct
{
  char *generation;    /* its object */
  GString *text;
  GVariant *results;   /* (nullable): of the done line */
  char *failure;       /* (nullable): the name of the error line */
  gboolean has_ended;
  gint64 first_us;     /* when the first text came; 0: not yet */
  int fd;              /* -1: closed */
  gpointer reader;     /* (nullable): of lines */
} BenchStream;

/* @is_text: plain text instead of lines. */
BenchStream     *bench_stream_new       (GDBusConnection *connection,
                                         const char      *context,
                                         const char      *prompt,
                                         GVariant        *options,
                                         gboolean         is_text,
                                         GError         **error);
void             bench_stream_free      (BenchStream     *self);
/* Reads until the end, or until that time comes (monotonic, µs). FALSE with @error when the stream
 * is none. */
gboolean         bench_stream_read      (BenchStream     *self,
                                         gint64           until_us,
                                         GError         **error);
/* Leaves the rest unread. */
void             bench_stream_close     (BenchStream     *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchStream, bench_stream_free)

G_END_DECLS
