/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The interfaces: their description, which is the XML compiled into the program
 * and the only source, and the tables that say which function answers which
 * method and property. A check at the start holds the two together. Any thread.
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
  void (*handle) (LlmBusCall *call);
} LlmBusMethod;

typedef struct
{
  const char *name;
  /* Returns: (transfer floating); @object: of the path, NULL for the service's own.
   * Answers from memory, at once. */
  GVariant *(*get) (LlmBus *bus, gpointer object);
} LlmBusProperty;

typedef struct
{
  const char *name;
  const LlmBusMethod *methods;       /* up to one without a name */
  const LlmBusProperty *properties;  /* up to one without a name */
} LlmBusInterface;

/* (transfer none): of the XML; asking for a name that is not there aborts. */
GDBusInterfaceInfo   *llm_bus_interface_lookup_info (const char            *name);

const LlmBusMethod   *llm_bus_interface_find_method   (const LlmBusInterface *self,
                                                       const char            *name);
const LlmBusProperty *llm_bus_interface_find_property (const LlmBusInterface *self,
                                                       const char            *name);

/* `a{sv}` of all properties. (transfer floating) */
GVariant             *llm_bus_interface_list_properties (const LlmBusInterface *self,
                                                         LlmBus                *bus,
                                                         gpointer               object);

/* Whether each method and property of the XML has its entry and each entry its
 * method or property; names the first that has not. */
gboolean              llm_bus_interface_check       (const LlmBusInterface *self,
                                                     GError               **error);

G_END_DECLS
