/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What Flatpak tells about a process in the file .flatpak-info of its root. Only processes of the
 * same user can be looked at so, and by root all: for others the control group has to do. Any
 * thread but main, as it opens another process's files.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  LLM_BUS_FLATPAK_NONE,    /* there is no such file: the process is not in a Flatpak */
  LLM_BUS_FLATPAK_HIDDEN,  /* we may not look */
  LLM_BUS_FLATPAK_NAMED,   /* it names the application */
  LLM_BUS_FLATPAK_BROKEN,  /* it is there and names none, or can't be trusted */
} LlmBusFlatpak;

/* @folder: the process's in /proc; @app_id: (out) (transfer full): the id, or NULL. */
LlmBusFlatpak llm_bus_flatpak_read (const char *folder,
                                    char      **app_id);

G_END_DECLS
