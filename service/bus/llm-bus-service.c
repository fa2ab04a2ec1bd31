/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/llm-bus-service.h"

#include "bus/objects/llm-bus-admin.h"
#include "bus/identity/llm-bus-bouncer.h"
#include "bus/identity/llm-bus-caller.h"
#include "bus/objects/llm-bus-contexts.h"
#include "bus/limits/llm-bus-relay.h"
#include "bus/objects/llm-bus-generations.h"
#include "bus/objects/llm-bus-manager.h"
#include "bus/objects/llm-bus-memory.h"
#include "bus/objects/llm-bus-metrics.h"
#include "bus/objects/llm-bus-model.h"
#include "bus/objects/llm-bus-models.h"
#include "bus/llm-bus-name.h"
#include "bus/llm-bus-power.h"
#include "bus/objects/llm-bus-tree.h"
#include "common/llmsvc-i18n.h"
#include "common/llmsvc-names.h"

/* Those at /org/llm/Service. */
static const LlmBusInterface *const own_interfaces[] = {
  &llm_bus_manager_interface,
  &llm_bus_memory_interface,
  &llm_bus_admin_interface,
};

struct _LlmBusService
{
  GObject parent_instance;

  LlmBus *bus;                 /* (owned) */
  guint objects[G_N_ELEMENTS (own_interfaces)];
  LlmBusTree *contexts;        /* (owned) (nullable) */
  LlmBusTree *generations;     /* (owned) (nullable) */
  LlmBusMemory *memory;        /* (owned) (nullable) */
  LlmBusMetrics *metrics;      /* (owned) (nullable) */
  LlmBusName *name;            /* (owned) (nullable) */
  LlmBusPower *power;          /* (owned) (nullable) */
  gboolean is_system;
  gboolean minds_power;
  gulong availability_handler;
};

enum
{
  SIGNAL_ACQUIRED,
  SIGNAL_LOST,
  N_SIGNALS
};

static guint signals[N_SIGNALS];

G_DEFINE_FINAL_TYPE (LlmBusService, llm_bus_service, G_TYPE_OBJECT)

static const LlmBusInterface *
find_interface (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (own_interfaces); i++)
    if (g_str_equal (own_interfaces[i]->name, name))
      return own_interfaces[i];

  return NULL;
}

static void
on_method_call (GDBusConnection       *connection,
                const char            *sender,
                const char            *path,
                const char            *interface,
                const char            *method,
                GVariant              *arguments,
                GDBusMethodInvocation *invocation,
                gpointer               data)
{
  llm_bus_call_begin (data, invocation, find_interface (interface), NULL, NULL);
}

static GVariant *
on_get_property (GDBusConnection *connection,
                 const char      *sender,
                 const char      *path,
                 const char      *interface,
                 const char      *name,
                 GError         **error,
                 gpointer         data)
{
  const LlmBusProperty *property =
    llm_bus_interface_find_property (find_interface (interface), name);

  g_assert (property != NULL);
  if (!llm_bus_bouncer_check_property (interface, name, error))
    return NULL;
  return property->get (data, NULL);
}

static const GDBusInterfaceVTable vtable = { on_method_call, on_get_property, NULL, { NULL } };

static void
on_caller_identified (LlmBusCallers *callers,
                      LlmCaller     *caller,
                      LlmBusService *self)
{
  LlmAppLimits limits;

  llm_engine_get_limits (self->bus->engine, caller, &limits);
  llm_bus_gate_set_caller (self->bus->gate, caller, &limits);
}

static void
on_caller_gone (LlmBusCallers *callers,
                const char    *connection,
                LlmBusService *self)
{
  llm_bus_contexts_forget_holder (self->bus->contexts, connection);
  llm_engine_caller_gone (self->bus->engine, connection);
}

static void
on_name_acquired (gpointer data)
{
  g_signal_emit (data, signals[SIGNAL_ACQUIRED], 0);
}

static void
on_name_lost (const char *reason,
              gpointer    data)
{
  g_signal_emit (data, signals[SIGNAL_LOST], 0, reason);
}

static guint
on_name_probe (gpointer data)
{
  LlmBusService *self = data;

  return llm_engine_probe (self->bus->engine);
}

static const LlmBusNameEvents name_events = { on_name_acquired, on_name_lost, on_name_probe };

void
llm_bus_service_stop (LlmBusService *self)
{
  g_return_if_fail (LLM_IS_BUS_SERVICE (self));

  if (self->bus == NULL)
    return;

  g_clear_pointer (&self->name, llm_bus_name_release);
  g_clear_pointer (&self->power, llm_bus_power_unwatch);
  for (guint i = 0; i < G_N_ELEMENTS (self->objects); i++)
    if (self->objects[i] != 0)
      g_dbus_connection_unregister_object (self->bus->connection, self->objects[i]);
  g_clear_pointer (&self->contexts, llm_bus_tree_unexport);
  g_clear_pointer (&self->generations, llm_bus_tree_unexport);
  g_clear_pointer (&self->memory, llm_bus_memory_unwatch);
  g_clear_pointer (&self->metrics, llm_bus_metrics_close);
  if (self->bus->models != NULL)
    llm_bus_models_unexport (self->bus->models);

  g_clear_signal_handler (&self->availability_handler, self->bus->engine);
  g_signal_handlers_disconnect_by_data (self->bus->callers, self);
  g_clear_pointer (&self->bus, llm_bus_unref);
}

static void
llm_bus_service_dispose (GObject *object)
{
  llm_bus_service_stop (LLM_BUS_SERVICE (object));

  G_OBJECT_CLASS (llm_bus_service_parent_class)->dispose (object);
}

static void
llm_bus_service_class_init (LlmBusServiceClass *klass)
{
  G_OBJECT_CLASS (klass)->dispose = llm_bus_service_dispose;

  signals[SIGNAL_ACQUIRED] = g_signal_new ("acquired", G_TYPE_FROM_CLASS (klass),
                                           G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
  signals[SIGNAL_LOST] = g_signal_new ("lost", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0,
                                       NULL, NULL, NULL, G_TYPE_NONE, 1, G_TYPE_STRING);
}

static void
llm_bus_service_init (LlmBusService *self)
{
}

gboolean
llm_bus_service_check_tables (GError **error)
{
  static const LlmBusInterface *const others[] = { &llm_bus_model_interface };

  for (guint i = 0; i < G_N_ELEMENTS (own_interfaces); i++)
    if (!llm_bus_interface_check (own_interfaces[i], error))
      return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    if (!llm_bus_interface_check (others[i], error))
      return FALSE;

  return llm_bus_interface_check (llm_bus_contexts_tree.interface, error) &&
         llm_bus_interface_check (llm_bus_generations_tree.interface, error);
}

static gboolean
export_objects (LlmBusService *self,
                GError       **error)
{
  LlmBus *bus = self->bus;

  for (guint i = 0; i < G_N_ELEMENTS (own_interfaces); i++)
    {
      self->objects[i] = g_dbus_connection_register_object (
        bus->connection, LLMSVC_PATH, llm_bus_interface_lookup_info (own_interfaces[i]->name),
        &vtable, llm_bus_ref (bus), (GDestroyNotify) llm_bus_unref, error);
      if (self->objects[i] == 0)
        {
          llm_bus_unref (bus);
          return FALSE;
        }
    }

  self->contexts = llm_bus_tree_export (bus, &llm_bus_contexts_tree, error);
  if (self->contexts == NULL)
    return FALSE;
  self->generations = llm_bus_tree_export (bus, &llm_bus_generations_tree, error);
  return self->generations != NULL;
}

/* Without them the service is as good as with them. */
static void
open_metrics (LlmBusService *self,
              const char    *setting,
              gboolean       is_system)
{
  g_autofree char *path =
      g_str_equal (setting, "on") ? llm_bus_metrics_dup_path (is_system) : g_strdup (setting);
  g_autoptr(GError) error = NULL;

  self->metrics = llm_bus_metrics_open (self->bus, path, &error);
  if (self->metrics == NULL)
    g_message ("%s", error->message);
}

LlmBusService *
llm_bus_service_new (GDBusConnection   *connection,
                     gboolean           is_system,
                     LlmEngine         *engine,
                     const LlmSettings *settings,
                     GError           **error)
{
  g_autoptr(LlmBusService) self = NULL;
  g_auto(GStrv) desktop_folders = NULL;
  g_autofree char *locale = NULL;
  LlmBus *bus;

  g_return_val_if_fail (G_IS_DBUS_CONNECTION (connection), NULL);
  g_return_val_if_fail (LLM_IS_ENGINE (engine), NULL);

  if (!llm_bus_service_check_tables (error))
    return NULL;

  self = g_object_new (LLM_TYPE_BUS_SERVICE, NULL);
  bus = self->bus = llm_bus_new ();
  bus->connection = g_object_ref (connection);
  bus->engine = g_object_ref (engine);
  bus->stall_timeout_s = settings->stall_timeout_s;
  self->is_system = is_system;
  /* a script is the same on every machine */
  self->minds_power = settings->script == NULL;
  /* a session's bus tells the language to the services that it starts */
  locale = is_system ? NULL : llm_bus_translator_guess_locale ();
  bus->translator = llm_bus_translator_new (llmsvc_i18n_get_folder (), locale);
  desktop_folders = llm_bus_callers_list_desktop_folders (is_system);
  bus->gate = llm_bus_gate_new (connection, bus->translator, settings->max_message);
  llm_bus_relay_set_gate (connection, bus->gate);
  bus->callers =
    llm_bus_callers_new (connection, bus->gate, "/proc", (const char *const *) desktop_folders);
  bus->bouncer = llm_bus_bouncer_new (connection, is_system);
  bus->contexts = llm_bus_contexts_new (connection);
  bus->models = llm_bus_models_new (connection, engine);
  g_signal_connect (bus->callers, "identified", G_CALLBACK (on_caller_identified), self);
  g_signal_connect (bus->callers, "gone", G_CALLBACK (on_caller_gone), self);
  self->availability_handler = g_signal_connect_swapped (
    engine, "availability-changed", G_CALLBACK (llm_bus_manager_announce), bus);
  self->memory = llm_bus_memory_watch (bus);

  if (!export_objects (self, error))
    return NULL;
  if (settings->metrics != NULL)
    open_metrics (self, settings->metrics, is_system);

  return g_steal_pointer (&self);
}

void
llm_bus_service_start (LlmBusService *self)
{
  g_return_if_fail (LLM_IS_BUS_SERVICE (self));
  g_return_if_fail (self->name == NULL);

  self->name = llm_bus_name_own (self->bus->connection, &name_events, self);
  if (self->minds_power)
    self->power = llm_bus_power_watch (self->bus->engine,
                                       self->is_system ? self->bus->connection : NULL, NULL);
}
