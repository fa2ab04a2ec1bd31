/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What people are told to type, by the bus that the service is or would be started on: where its
 * models go, with whose rights, and what to do about a unit that is masked. Main thread. */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* "sudo " or "": stands before a command that changes what belongs to the service. */
const char *llmctl_place_get_sudo      (GBusType         type);
/* "sudo systemctl" or "systemctl --user". */
const char *llmctl_place_get_systemctl (GBusType         type);
/* (transfer full): the folder that the service reads and that models are put into; a ~ for the home
 * folder. */
char       *llmctl_place_make_folder   (GBusType         type);
/* (transfer full): the command that puts a model there. */
char       *llmctl_place_make_install  (GBusType         type);

/* Whether systemd on @bus (nullable) must not start the service; FALSE without a systemd. */
gboolean    llmctl_place_is_masked     (GDBusConnection *bus);
/* (transfer full): the command that ends that. */
char       *llmctl_place_make_unmask   (GBusType         type);

G_END_DECLS
