/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the root of a process says about Flatpak: the file .flatpak-info, and the file system that
 * it lies on. Only root and, of its own processes, a user may look at the file; for the others
 * the file system has to do. A program outside a sandbox can make itself such a root, so this is
 * worth something only together with the control group. Any thread but main, as it opens another
 * process's files.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  LLM_BUS_FLATPAK_NONE,    /* no such file; or we may not look, and Flatpak makes other roots */
  LLM_BUS_FLATPAK_HIDDEN,  /* we may not look; the root is on a tmpfs of its own, as a Flatpak's */
  LLM_BUS_FLATPAK_NAMED,   /* the file names the application, and the root is as a Flatpak's */
  LLM_BUS_FLATPAK_BROKEN,  /* the file names none or the root is not Flatpak's, or can't be read */
} LlmBusFlatpak;

/* @proc_root: `/proc`, or what a test puts in its place; @app_id: (out) (transfer full): the
 * name with %LLM_BUS_FLATPAK_NAMED, which may be anything, or NULL. */
LlmBusFlatpak llm_bus_flatpak_read (const char *proc_root,
                                    guint32     pid,
                                    char      **app_id);

G_END_DECLS
