/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the commands share that read the service's own objects over plain D-Bus. Main
 * thread. */

#pragma once

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

#define LLMCTL_SERVICE_NAME      "org.llm.Service"
#define LLMCTL_SERVICE_PATH      "/org/llm/Service"
#define LLMCTL_SERVICE_INTERFACE "org.llm.Service"
#define LLMCTL_MEMORY_INTERFACE  "org.llm.Service.Memory"
#define LLMCTL_ADMIN_INTERFACE   "org.llm.Service.Admin"
#define LLMCTL_MODEL_INTERFACE   "org.llm.Service.Model"
#define LLMCTL_CONTEXT_INTERFACE "org.llm.Service.Context"

/* (transfer full): the bus; NULL with LLMSVC_ERROR_NOT_AVAILABLE when the service does
 * not run, which asking it for what it holds is no reason to start it. */
GDBusConnection *llmctl_service_connect_running (GError          **error) G_GNUC_WARN_UNUSED_RESULT;

/* (transfer full): all properties of one interface, a{sv}; @path is nullable as that of
 * llmctl_call(). */
GVariant        *llmctl_service_get_properties  (GDBusConnection  *bus,
                                                 const char       *path,
                                                 const char       *interface,
                                                 GError          **error) G_GNUC_WARN_UNUSED_RESULT;

/* (transfer full) (nullable): the one value, of type @type, that "interface.Method" of @name replies
 * in time, without anything being started. */
GVariant        *llmctl_service_ask             (GDBusConnection  *bus,
                                                 const char       *name,
                                                 const char       *path,
                                                 const char       *method,
                                                 GVariant         *arguments,
                                                 const char       *type,
                                                 int               limit_ms,
                                                 GCancellable     *cancellable,
                                                 GError          **error);

/* Of an a{sv} from outside: "" and 0 for what is not there or of another type. */
const char      *llmctl_dict_get_string         (GVariant         *dict,
                                                 const char       *key);
guint64          llmctl_dict_get_number         (GVariant         *dict,
                                                 const char       *key);

/* (transfer full): aa{sv} as ListApps has it. */
GVariant        *llmctl_apps_list               (GDBusConnection  *bus,
                                                 GError          **error) G_GNUC_WARN_UNUSED_RESULT;
/* Of a word that says how something is: good, bad, or in between. */
LlmctlStyle      llmctl_service_get_style       (const char       *word,
                                                 const char       *good,
                                                 const char       *bad);
/* What people are shown of one: its id, or that it has none. */
const char      *llmctl_apps_get_title          (GVariant         *app);

/* As llmctl_complain_usage() when @argv has more than @n_most arguments after the name,
 * else LLMCTL_EXIT_OK. */
LlmctlExit       llmctl_check_arguments         (char            **argv,
                                                 int               n_most);

/* The same, and complains that something is @missing when there is no argument. */
LlmctlExit       llmctl_require_arguments       (char            **argv,
                                                 int               n_most,
                                                 const char       *missing);

/* For completion: calls @method, and offers the text @key of each a{sv} in what it returns, with
 * the text @help_key (nullable) of the same. Takes floating @parameters (nullable). */
void             llmctl_service_complete        (LlmctlCompletion *completion,
                                                 const char       *path,
                                                 const char       *interface,
                                                 const char       *method,
                                                 GVariant         *parameters,
                                                 const char       *key,
                                                 const char       *help_key);

G_END_DECLS
