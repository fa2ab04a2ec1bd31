/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The interfaces: their description, which is the XML compiled into the program
 * and the only source, and the tables that say which function answers which
 * method. A check at the start holds the two together. Any thread.
 */

#pragma once

#include <gio/gio.h>

#include "bus/llm-bus.h"
#include "common/llm-call-options.h"

G_BEGIN_DECLS

typedef struct _LlmBusCall LlmBusCall;

typedef struct
{
  const char *name;
  LlmsvcCall call;               /* whose options the last argument holds; 0: it has none */
  /* FALSE with an error, which becomes the reply; otherwise the call is answered, or will be. */
  gboolean (*handle) (LlmBusCall *call, GError **error);
} LlmBusMethod;

typedef struct
{
  const char *name;
  const LlmBusMethod *methods;   /* (nullable): up to one without a name */
  /* (nullable): all properties that may be read, as a{sv}; @object: of the path, NULL for the
   * service's own. Answers from memory, at once. Returns: (transfer floating) */
  GVariant *(*list_properties) (LlmBus *bus, gpointer object);
} LlmBusInterface;

/* (transfer none): of the XML; asking for a name that is not there aborts. */
GDBusInterfaceInfo *llm_bus_interface_lookup_info  (const char            *name);

const LlmBusMethod *llm_bus_interface_find_method  (const LlmBusInterface *self,
                                                    const char            *name);

/* (transfer full) (nullable): what nobody lists, nobody may read. */
GVariant           *llm_bus_interface_get_property (const LlmBusInterface *self,
                                                    LlmBus                *bus,
                                                    gpointer               object,
                                                    const char            *name,
                                                    GError               **error);

/* Whether each method of the XML has its entry and each entry its method; names the first that
 * has not. */
gboolean            llm_bus_interface_check        (const LlmBusInterface *self,
                                                    GError               **error);

G_END_DECLS
