/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The real daemon on a private bus, activated by the bus as on a user's machine,
 * with its files in a temporary folder and the model that the repository ships.
 * Failures of the rig itself abort the test. One thread.
 */

#pragma once

#include <gio/gio.h>

#include "common/llmsvc-names.h"

G_BEGIN_DECLS

#define BUS_RIG_TIMEOUT_MS 120000

typedef struct _BusRig BusRig;

/* @model: (nullable): a model file instead of the shipped one; @config: (nullable):
 * the content of its configuration. The daemon is started by the first call. */
BusRig          *bus_rig_new         (const char      *model,
                                      const char      *config);
/* The same with variables, "A=b C=d", in the daemon's environment alone. */
BusRig          *bus_rig_new_with_environment (const char *model,
                                      const char      *config,
                                      const char      *environment);
/* The daemon with --system: the private bus stands for the system's. */
BusRig          *bus_rig_new_system  (void);
/* Ends the daemon and the bus and removes the folder. */
void             bus_rig_free        (BusRig          *self);

/* A temporary folder of this rig's, removed with it. */
const char      *bus_rig_get_folder  (BusRig          *self);

/* The address of the private bus. */
const char      *bus_rig_get_address (BusRig          *self);

/* (transfer full): a connection of its own, another caller for the daemon. */
GDBusConnection *bus_rig_connect     (BusRig          *self);
/* The same, registered as @app_id. */
GDBusConnection *bus_rig_connect_app (BusRig          *self,
                                      const char      *app_id);

/* The process that owns the name now, 0 for none. */
int              bus_rig_get_pid     (BusRig          *self);
/* Sends @signal to the daemon and waits until its process is gone. */
void             bus_rig_end_daemon  (BusRig          *self,
                                      int              signal);

/**
 * bus_call:
 * @path: of the object; NULL for the service's own
 * @interface: after "org.llm.Service": "", ".Memory", or a whole name with a dot
 *   inside
 * @arguments: (transfer floating) (nullable): a tuple
 *
 * Calls and iterates the main context meanwhile.
 *
 * Returns: (transfer full): the reply, or %NULL with @error set
 */
GVariant        *bus_call            (GDBusConnection *connection,
                                      const char      *path,
                                      const char      *interface,
                                      const char      *method,
                                      GVariant        *arguments,
                                      GError         **error);
/* The same where a failure fails the test. */
GVariant        *bus_call_ok         (GDBusConnection *connection,
                                      const char      *path,
                                      const char      *interface,
                                      const char      *method,
                                      GVariant        *arguments);

/* The value of a property; a failure fails the test. (transfer full) */
GVariant        *bus_get             (GDBusConnection *connection,
                                      const char      *path,
                                      const char      *interface,
                                      const char      *property);
guint64          bus_get_number      (GDBusConnection *connection,
                                      const char      *path,
                                      const char      *interface,
                                      const char      *property);

/* Options from GVariant text, "{'max-tokens': <5>}"; floating. */
GVariant        *bus_options         (const char      *format,
                                      ...);

/* OpenContext with `create`; (transfer full): the path. */
char            *bus_open            (GDBusConnection *connection,
                                      const char      *name);

/* Generate of one user message; (transfer full): the generation's path; @fd: the
 * reader's, blocking. */
char            *bus_generate        (GDBusConnection *connection,
                                      const char      *context,
                                      const char      *prompt,
                                      GVariant        *options,
                                      int             *fd,
                                      GError         **error);
/* Options of an answer that goes on until max-tokens or the context's end, as GVariant
 * text without its closing brace: the demo model's own ends are biased away. */
#define BUS_LONG_ANSWER \
  "{'max-tokens': <900>, 'temperature': <1.0>, 'seed': <uint64 3>, " \
  "'logit-bias': <{uint32 0: -100.0, uint32 1: -100.0, uint32 2: -100.0, " \
  "uint32 3: -100.0, uint32 4: -100.0, uint32 5: -100.0}>"

/* Reads until the end of the pipe, and closes it. */
GString         *bus_read_all        (int              fd);

/* Waits for one byte of the pipe. */
void             bus_read_one        (int              fd);

/* The number of GetMessages of a context, and the last one's text. */
guint            bus_count_messages  (GDBusConnection *connection,
                                      const char      *context,
                                      char           **last);

/* Ask; (transfer full): the text; @results: (out) (nullable) (transfer full). */
char            *bus_ask             (GDBusConnection *connection,
                                      const char      *context,
                                      const char      *prompt,
                                      GVariant        *options,
                                      GVariant       **results);
/* CreateContext; (transfer full): the path. */
char            *bus_create          (GDBusConnection *connection,
                                      GVariant        *options);
/* `a(ssa{sv})` of one message; floating. */
GVariant        *bus_one_message     (const char      *role,
                                      const char      *text);
/* Introspect; (transfer full). */
char            *bus_introspect      (GDBusConnection *connection,
                                      const char      *path);

/* A value of an `a{sv}` that must be there. */
guint32          bus_lookup_u        (GVariant        *dict,
                                      const char      *key);
/* (transfer full) */
char            *bus_lookup_s        (GVariant        *dict,
                                      const char      *key);

/* The name of a bus error without its "org.llm.Service.Error." (transfer full) */
char            *bus_error_name      (const GError    *error);
/* Fails the test unless @error is org.llm.Service.Error.@name. */
void             bus_assert_error    (const GError    *error,
                                      const char      *name);
/* Fails the test unless @error is what a path that never was gives. */
void             bus_assert_unknown_object (const GError *error);

/* Iterates the main context until @condition, for a minute at most. */
typedef gboolean (*BusCondition) (gpointer data);
void             bus_wait_until      (BusCondition     condition,
                                      gpointer         data);

/* For tests that need a service and one application, and nothing more. */
typedef struct
{
  BusRig *rig;
  GDBusConnection *app;
} BusFixture;

void             bus_fixture_set_up   (BusFixture      *fixture,
                                       gconstpointer    data);
void             bus_fixture_tear_down (BusFixture     *fixture,
                                       gconstpointer    data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BusRig, bus_rig_free)

G_END_DECLS
