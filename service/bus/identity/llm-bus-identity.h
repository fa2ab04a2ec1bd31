/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Which application a process is, from what the system says about it: its AppArmor label, its
 * control group, and what Flatpak left in its root. A program outside a sandbox can name its group
 * as it likes and make itself a root, so an application in a sandbox is only believed where two of
 * these agree, or the one that only root can set says so. Where they disagree, and where something
 * can't be read, the process is unknown, never an ordinary program of its user. Any thread; reads
 * small kernel files and looks whether desktop files exist.
 */

#pragma once

#include "accounts/llm-caller.h"

G_BEGIN_DECLS

/* Before the id of a Flatpak; a snap's begins with `snap.` by itself. */
#define LLM_BUS_FLATPAK_PREFIX "flatpak."

/* An id that may name a desktop file: letters, digits, '.', '_' and '-', not
 * beginning with '.' or '-', at most 255 bytes. */
gboolean      llm_bus_identity_is_app_id    (const char         *id);
/* Whether only an application in a sandbox has such an id. */
gboolean      llm_bus_identity_is_reserved  (const char         *id);

/**
 * llm_bus_identity_parse_label:
 * @label: a security label such as `snap.NAME.APP (enforce)`
 * @app_id: (out) (transfer full): `snap.NAME`, or %NULL
 *
 * Returns: %LLM_CALLER_SNAP or %LLM_CALLER_HOST
 */
LlmCallerKind llm_bus_identity_parse_label  (const char         *label,
                                             char              **app_id);

/**
 * llm_bus_identity_parse_cgroup:
 * @text: the content of a /proc/PID/cgroup
 * @desktop_folders: where desktop files lie, %NULL-terminated
 * @app_id: (out) (transfer full): the id, or %NULL
 * @is_users: (out): whether the group that says so is one of the user's own systemd, from which
 *   any program of the user gets groups of any name
 *
 * Knows the unified hierarchy, systemd's own of version 1, and the freezer that
 * snaps used there.
 */
LlmCallerKind llm_bus_identity_parse_cgroup (const char         *text,
                                             const char *const  *desktop_folders,
                                             char              **app_id,
                                             gboolean           *is_users);

/* (transfer full): where desktop files lie: the user's, unless @is_system, and the system's. */
GStrv         llm_bus_identity_list_desktop_folders (gboolean is_system);

/*
 * What the root of a process says about Flatpak: the file .flatpak-info, and the file system that
 * it lies on. Only root and, of its own processes, a user may look at the file; for the others
 * the file system has to do. A program outside a sandbox can make itself such a root, so this is
 * worth something only together with the control group. Any thread but main, as it opens another
 * process's files.
 */
typedef enum
{
  LLM_BUS_FLATPAK_NONE,    /* no such file; or we may not look, and Flatpak makes other roots */
  LLM_BUS_FLATPAK_HIDDEN,  /* we may not look; the root is as bwrap makes one for a Flatpak */
  LLM_BUS_FLATPAK_NAMED,   /* the file names the application, and the root is as a Flatpak's */
  LLM_BUS_FLATPAK_BROKEN,  /* the file names none or the root is not Flatpak's, or can't be read */
} LlmBusFlatpak;

/* @proc_root: `/proc`, or what a test puts in its place; @app_id: (out) (transfer full): the
 * name with %LLM_BUS_FLATPAK_NAMED, which may be anything, or NULL. */
LlmBusFlatpak llm_bus_flatpak_read (const char *proc_root,
                                    guint32     pid,
                                    char      **app_id);

/* Evidence about a process. */
typedef struct
{
  LlmCallerKind group;      /* as llm_bus_identity_parse_cgroup() says */
  const char *group_id;     /* (nullable) */
  gboolean is_users_group;
  LlmBusFlatpak root;
  const char *root_id;      /* (nullable): with LLM_BUS_FLATPAK_NAMED */
  const char *label;        /* (nullable): AppArmor's; NULL where it is not in force */
} LlmBusEvidence;

/**
 * llm_bus_identity_decide:
 * @app_id: (out) (transfer full): the id, or %NULL
 *
 * A snap is one by its label, or, where the machine has no AppArmor, by a group that root made. A
 * Flatpak is one by its group and its root. Whatever claims a sandbox without that is unknown.
 */
LlmCallerKind llm_bus_identity_decide       (const LlmBusEvidence *evidence,
                                             char                **app_id);

/* A process to identify. */
typedef struct
{
  const char *proc_root;               /* `/proc`, or what a test puts in its place */
  guint32 pid;
  int pidfd;                           /* of the process that connected, from the bus; -1: it has
                                        * none */
  gint64 seen_us;                      /* its connection existed at this time (CLOCK_BOOTTIME); 0:
                                        * unknown */
  const char *label;                   /* (nullable): its security label, when the bus knows it */
  const char *const *desktop_folders;  /* where desktop files lie, %NULL-terminated */
} LlmBusProcess;

/**
 * llm_bus_identity_read:
 * @app_id: (out) (transfer full): the id, or %NULL
 *
 * A process whose number belonged to another when the connection was made is unknown. With a
 * pidfd that is certain: while its process lives, no other process has its number. Without one, the
 * process must have started before the connection was first seen, and have the same start time
 * before and after its files were read.
 */
LlmCallerKind llm_bus_identity_read         (const LlmBusProcess *process,
                                             char               **app_id);

G_END_DECLS
