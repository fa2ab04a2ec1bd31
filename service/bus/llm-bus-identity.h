/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Which application a process is, from what the system says about it: its
 * AppArmor label and its control group. Classes are tried in order; the first
 * that matches decides, and whatever can't be read makes the process unknown,
 * never an ordinary program of its user. Any thread; reads small kernel files
 * and looks whether desktop files exist.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  LLM_BUS_APP_UNKNOWN, /* reading failed */
  LLM_BUS_APP_NONE,    /* outside a sandbox, no application known */
  LLM_BUS_APP_UNIT,    /* outside a sandbox, a systemd unit named after a desktop file */
  LLM_BUS_APP_FLATPAK,
  LLM_BUS_APP_SNAP,
} LlmBusAppKind;

/* An id that may name a desktop file: letters, digits, '.', '_' and '-', not
 * beginning with '.' or '-', at most 255 bytes. */
gboolean      llm_bus_identity_is_app_id    (const char         *id);

/**
 * llm_bus_identity_parse_label:
 * @label: a security label such as `snap.NAME.APP (enforce)`
 * @app_id: (out) (transfer full): `snap.NAME`, or %NULL
 *
 * Returns: %LLM_BUS_APP_SNAP or %LLM_BUS_APP_NONE
 */
LlmBusAppKind llm_bus_identity_parse_label  (const char         *label,
                                             char              **app_id);

/**
 * llm_bus_identity_parse_cgroup:
 * @text: the content of a /proc/PID/cgroup
 * @desktop_folders: where desktop files lie, %NULL-terminated
 * @app_id: (out) (transfer full): the id, or %NULL
 *
 * Knows the unified hierarchy, systemd's own of version 1, and the freezer that
 * snaps used there.
 */
LlmBusAppKind llm_bus_identity_parse_cgroup (const char         *text,
                                             const char *const  *desktop_folders,
                                             char              **app_id);

/**
 * llm_bus_identity_read:
 * @proc_root: `/proc`, or what a test puts in its place
 * @pid: the process
 * @label: (nullable): its security label, when the bus knows it
 * @desktop_folders: where desktop files lie, %NULL-terminated
 * @app_id: (out) (transfer full): the id, or %NULL
 *
 * The process must have the same start time before and after its files were read.
 */
LlmBusAppKind llm_bus_identity_read         (const char         *proc_root,
                                             guint32             pid,
                                             const char         *label,
                                             const char *const  *desktop_folders,
                                             char              **app_id);

G_END_DECLS
