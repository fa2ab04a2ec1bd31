/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A private bus on which the service starts with the first call, with a state folder of
 * its own; and readings of processes. What goes wrong ends the program. One thread.
 */

#pragma once

#include "bench.h"

G_BEGIN_DECLS

typedef struct
{
  GTestDBus *dbus;
  GDBusConnection *connection;
  char *folder;
  guint daemon_pid;   /* 0 until it has answered */
  guint bus_pid;
} BenchBus;

/* @cache: folder of prepared copies that outlives the bus; NULL for one of the bus. */
BenchBus *bench_bus_new             (const char *daemon,
                                     const char *model,
                                     const char *cache);
void      bench_bus_free            (BenchBus   *self);
GVariant *bench_bus_call            (BenchBus   *self,
                                     const char *path,
                                     const char *interface,
                                     const char *method,
                                     GVariant   *arguments,
                                     const char *type);
/* A property of the service. */
GVariant *bench_bus_get             (BenchBus   *self,
                                     const char *interface,
                                     const char *property);
/* 0 when nobody has the name. */
guint     bench_bus_find_pid        (BenchBus   *self,
                                     const char *name);
/* (transfer floating): of answers that are the same each time. */
GVariant *bench_bus_make_options    (guint       n_tokens);
/* Milliseconds from now to the first byte of an answer that streams; the rest of it is
 * waited for. */
double    bench_bus_time_first_byte (BenchBus   *self,
                                     const char *prompt,
                                     guint       n_tokens);

/* Ends a service that a bus has started, and waits until it is gone: it is the bus's
 * child and not ours. 0: none. */
void      bench_stop_service        (guint       pid);
/* Asks the system to forget what it has of a file, or of all files in a folder. */
void      bench_drop_from_cache     (const char *path);
/* A line of /proc/PID/@file in KiB, given as MiB; 0 when there is none. */
double    bench_read_proc_mib       (guint       pid,
                                     const char *file,
                                     const char *key);

G_END_DECLS
