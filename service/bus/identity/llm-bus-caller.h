/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * All callers, by unique name: asks the bus for uid, process and label, finds out the application,
 * and forgets callers that have left. Look-ups of one sender are answered in the order in which
 * they came. Main thread; the files of /proc are read in another.
 */

#pragma once

#include "bus/llm-bus.h"

G_BEGIN_DECLS

/* @caller or @error, the other NULL. */
typedef void (*LlmBusCallerFound)      (LlmCaller    *caller,
                                        const GError *error,
                                        gpointer      data);
/* The caller is now known, or has another name. */
typedef void (*LlmBusCallerIdentified) (LlmCaller  *caller,
                                        gpointer    data);
/* A known caller has left the bus. */
typedef void (*LlmBusCallerGone)       (const char *connection,
                                        gpointer    data);

/**
 * llm_bus_callers_new:
 * @gate: knows since when a connection is there; outlives this
 * @proc_root: `/proc`, or what a test puts in its place
 * @desktop_folders: where desktop files lie, %NULL-terminated
 */
LlmBusCallers *llm_bus_callers_new        (GDBusConnection        *connection,
                                           LlmBusGate             *gate,
                                           const char             *proc_root,
                                           const char *const      *desktop_folders,
                                           LlmBusCallerIdentified  identified,
                                           LlmBusCallerGone        gone,
                                           gpointer                data);
void           llm_bus_callers_free       (LlmBusCallers          *self);

/* Identifies @sender; @found is called at once when it is known already. */
void           llm_bus_callers_resolve    (LlmBusCallers     *self,
                                           const char        *sender,
                                           LlmBusCallerFound  found,
                                           gpointer           data);

/* The application of @sender can't change any more: it has made a call other than Register. */
void           llm_bus_callers_settle     (LlmBusCallers     *self,
                                           const char        *sender);

/* Registers the id that a caller claims, after the bouncer has admitted it: once, and before its
 * first other call. It must have been resolved. @uid: its own, or that of the user for whom the
 * endpoint calls. @locale: (nullable): the language of its messages */
gboolean       llm_bus_callers_register   (LlmBusCallers     *self,
                                           const char        *sender,
                                           guint32            uid,
                                           const char        *app_id,
                                           const char        *locale,
                                           GError           **error);

/* Reports all known callers again. */
void           llm_bus_callers_announce   (LlmBusCallers     *self);

/* The registered language of messages to @sender. (nullable) (transfer none) */
const char    *llm_bus_callers_get_locale (LlmBusCallers     *self,
                                           const char        *sender);

/* Whether @sender has been resolved and is still on the bus. */
gboolean       llm_bus_callers_is_present (LlmBusCallers     *self,
                                           const char        *sender);

G_END_DECLS
