/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A bus of type system of its own with the policy that is installed, the daemon on it as a user
 * of its own, polkit where the machine has it, and callers of any user. Needs root. Failures of the
 * rig itself abort the test. One thread; one rig in a process.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* Users that this process and its children alone know. The daemon's is llmsvc. */
#define RIG_SERVICE_UID 61234
#define RIG_UID         61301
#define RIG_OTHER_UID   61302
/* Whom polkit lets do everything. */
#define RIG_TRUSTED_UID 61303

typedef struct _SystemRig SystemRig;
typedef struct _SystemCaller SystemCaller;

/* NULL and why, when the machine can't do that. */
SystemRig    *system_rig_new         (const char **why);
void          system_rig_free        (SystemRig   *self);
/* Whether polkit answers on this bus. */
gboolean      system_rig_has_polkit  (SystemRig   *self);
/* Whether control groups can be made. */
gboolean      system_rig_has_groups  (SystemRig   *self);
/* (transfer full): the folder of a new control group */
char         *system_rig_make_group  (SystemRig   *self,
                                      const char  *name);
/* (transfer full): a folder that has .flatpak-info with @app_id, unless that is NULL. */
char         *system_rig_make_root   (SystemRig   *self,
                                      const char  *app_id);

/* @group, @root: (nullable): folders; @is_sandbox: what @root has lies on a tmpfs of the caller's own, as
 * Flatpak makes it; @leaves: the process that connects ends at once, another
 * goes on with its connection. */
SystemCaller *system_caller_new      (SystemRig   *rig,
                                      guint        uid,
                                      const char  *group,
                                      const char  *root,
                                      gboolean     is_sandbox,
                                      gboolean     leaves);
void          system_caller_free     (SystemCaller *self);
/* The process that connected. */
int           system_caller_get_pid  (SystemCaller *self);
const char   *system_caller_get_name (SystemCaller *self);

/* (transfer full): "+ REPLY" or "- ERROR". @interface: as in "", ".Admin", or whole with a dot
 * inside; @path NULL for the service's own; @arguments: GVariant text of a tuple. */
char         *system_call            (SystemCaller *self,
                                      const char  *path,
                                      const char  *interface,
                                      const char  *method,
                                      const char  *arguments);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (SystemRig, system_rig_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SystemCaller, system_caller_free)

G_END_DECLS
