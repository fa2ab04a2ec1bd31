/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "values/llmsvc-model-private.h"

#include "values/llmsvc-answer-private.h"

/**
 * LlmsvcModel:
 *
 * One installed model, from the list of [method@Llmsvc.Client.get_models].
 *
 * What the service tells of it may change while the object stays the same; `notify` says
 * so. Used in the thread of its [class@Llmsvc.Client].
 *
 * Since: 0.1
 */
struct _LlmsvcModel
{
  GObject parent_instance;

  char *path;
  char *id;
  char *title;
  GVariant *info;  /* (owned): a{sv} */
};

G_DEFINE_FINAL_TYPE (LlmsvcModel, llmsvc_model, G_TYPE_OBJECT)

#include "llmsvc-model-properties.h"

static void
llmsvc_model_finalize (GObject *object)
{
  LlmsvcModel *self = LLMSVC_MODEL (object);

  g_free (self->path);
  g_free (self->id);
  g_free (self->title);
  g_variant_unref (self->info);

  G_OBJECT_CLASS (llmsvc_model_parent_class)->finalize (object);
}

static void
llmsvc_model_class_init (LlmsvcModelClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = llmsvc_model_finalize;
  install_properties (G_OBJECT_CLASS (klass));
}

static void
llmsvc_model_init (LlmsvcModel *self)
{
  self->id = g_strdup ("");
  self->title = g_strdup ("");
  self->info = g_variant_ref_sink (g_variant_new_array (G_VARIANT_TYPE ("{sv}"), NULL, 0));
}

LlmsvcModel *
llmsvc_model_new (const char *path,
                  GVariant   *values)
{
  LlmsvcModel *self;

  g_return_val_if_fail (path != NULL, NULL);

  self = g_object_new (LLMSVC_TYPE_MODEL, NULL);
  self->path = g_strdup (path);
  llmsvc_model_update (self, values);
  return self;
}

static void
update_string (LlmsvcModel *self,
               char       **field,
               GVariant    *values,
               const char  *key,
               const char  *property)
{
  const char *value;

  if (!g_variant_lookup (values, key, "&s", &value) || g_str_equal (*field, value))
    return;

  g_free (*field);
  *field = g_strdup (value);
  g_object_notify (G_OBJECT (self), property);
}

void
llmsvc_model_update (LlmsvcModel *self,
                     GVariant    *values)
{
  static const char *const from_info[] = { "architecture", "quantization", "license",
                                           "n-parameters", "file-bytes", "context-length",
                                           "info" };
  g_autoptr(GVariant) info = NULL;

  g_return_if_fail (LLMSVC_IS_MODEL (self));
  g_return_if_fail (g_variant_is_of_type (values, G_VARIANT_TYPE_VARDICT));

  g_object_freeze_notify (G_OBJECT (self));
  update_string (self, &self->id, values, "Id", "id");
  update_string (self, &self->title, values, "Title", "title");
  info = g_variant_lookup_value (values, "Info", G_VARIANT_TYPE_VARDICT);
  if (info != NULL && !g_variant_equal (info, self->info))
    {
      g_variant_unref (self->info);
      self->info = g_steal_pointer (&info);
      /* Serialized, its strings stay where they are for as long as it lives. */
      (void) g_variant_get_data (self->info);
      for (guint i = 0; i < G_N_ELEMENTS (from_info); i++)
        g_object_notify (G_OBJECT (self), from_info[i]);
    }
  g_object_thaw_notify (G_OBJECT (self));
}

const char *
llmsvc_model_get_path (LlmsvcModel *self)
{
  return self->path;
}
