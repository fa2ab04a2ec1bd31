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

/* (transfer full): all properties of one interface, a{sv}; @path is nullable as that of
 * llmctl_call(). */
GVariant        *llmctl_service_get_properties  (const char       *path,
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

/* Of an a{sv} from outside; @key may be "outer/inner" for one in a dictionary of @dict.
 * (nullable) (transfer full): the value, of @type (nullable). */
GVariant        *llmctl_dict_look_up            (GVariant           *dict,
                                                 const char         *key,
                                                 const GVariantType *type);
/* "" and 0 for what is not there or of another type. */
const char      *llmctl_dict_get_string         (GVariant         *dict,
                                                 const char       *key);
guint64          llmctl_dict_get_number         (GVariant         *dict,
                                                 const char       *key);

/* (transfer full): aa{sv} as ListApps has it. */
GVariant        *llmctl_apps_list               (GError          **error) G_GNUC_WARN_UNUSED_RESULT;
/* Of a word that says how something is: good, bad, or in between. */
LlmctlStyle      llmctl_service_get_style       (const char       *word,
                                                 const char       *good,
                                                 const char       *bad);
/* What people are shown of one: its id, or that it has none. */
const char      *llmctl_apps_get_title          (GVariant         *app);

/* For completion: the names of a kind, as the service lists them. */
void             llmctl_service_complete        (LlmctlCompletion *completion,
                                                 LlmctlNames       names);

G_END_DECLS
