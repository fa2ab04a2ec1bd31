/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Everybody who has called, by unique name: asks the bus for uid, process and
 * label, finds out the application, and forgets those who have left. Look-ups
 * of one sender are answered in the order in which they came. Main thread; the
 * files of /proc are read in another.
 */

#pragma once

#include "bus/llm-bus.h"

G_BEGIN_DECLS

/* @caller or @error, the other NULL. */
typedef void (*LlmBusCallerFound)      (LlmCaller    *caller,
                                        const GError *error,
                                        gpointer      data);
/* It is known now, or goes by another name. */
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

/* Finds out who @sender is; @found is called at once when that is known. */
void           llm_bus_callers_resolve    (LlmBusCallers     *self,
                                           const char        *sender,
                                           LlmBusCallerFound  found,
                                           gpointer           data);

/* What @sender is can't change any more: it has made a call other than Register. */
void           llm_bus_callers_settle     (LlmBusCallers     *self,
                                           const char        *sender);

/* Gives a caller, whom the bouncer has let, the id it says it has: once, and before its
 * first other call. It must have been resolved. @locale: (nullable): of what it is told */
gboolean       llm_bus_callers_register   (LlmBusCallers     *self,
                                           const char        *sender,
                                           const char        *app_id,
                                           const char        *locale,
                                           GError           **error);

/* Tells of all that are known, again. */
void           llm_bus_callers_announce   (LlmBusCallers     *self);

/* The language of what @sender is told, as it has registered. (nullable) (transfer none) */
const char    *llm_bus_callers_get_locale (LlmBusCallers     *self,
                                           const char        *sender);

/* Whether @sender has been resolved and is still on the bus. */
gboolean       llm_bus_callers_is_present (LlmBusCallers     *self,
                                           const char        *sender);

G_END_DECLS
