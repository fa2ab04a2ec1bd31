/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "llmsvc-model-private.h"

#include "llmsvc-answer-private.h"

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

enum
{
  PROP_ID = 1,
  PROP_TITLE,
  PROP_ARCHITECTURE,
  PROP_QUANTIZATION,
  PROP_LICENSE,
  PROP_N_PARAMETERS,
  PROP_FILE_BYTES,
  PROP_CONTEXT_LENGTH,
  PROP_INFO,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

G_DEFINE_FINAL_TYPE (LlmsvcModel, llmsvc_model, G_TYPE_OBJECT)

static void
llmsvc_model_get_property (GObject    *object,
                           guint       id,
                           GValue     *value,
                           GParamSpec *pspec)
{
  LlmsvcModel *self = LLMSVC_MODEL (object);

  switch (id)
    {
    case PROP_ID:
      g_value_set_string (value, self->id);
      break;
    case PROP_TITLE:
      g_value_set_string (value, self->title);
      break;
    case PROP_ARCHITECTURE:
      g_value_set_string (value, llmsvc_model_get_architecture (self));
      break;
    case PROP_QUANTIZATION:
      g_value_set_string (value, llmsvc_model_get_quantization (self));
      break;
    case PROP_LICENSE:
      g_value_set_string (value, llmsvc_model_get_license (self));
      break;
    case PROP_N_PARAMETERS:
      g_value_set_uint64 (value, llmsvc_model_get_n_parameters (self));
      break;
    case PROP_FILE_BYTES:
      g_value_set_uint64 (value, llmsvc_model_get_file_bytes (self));
      break;
    case PROP_CONTEXT_LENGTH:
      g_value_set_uint (value, llmsvc_model_get_context_length (self));
      break;
    case PROP_INFO:
      g_value_set_variant (value, self->info);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

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
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->get_property = llmsvc_model_get_property;
  object_class->finalize = llmsvc_model_finalize;

  /**
   * LlmsvcModel:id:
   *
   * The name for [method@Llmsvc.Client.select_model_async].
   *
   * Since: 0.1
   */
  properties[PROP_ID] = g_param_spec_string ("id", NULL, NULL, "", flags);
  /**
   * LlmsvcModel:title:
   *
   * The name for people.
   *
   * Since: 0.1
   */
  properties[PROP_TITLE] = g_param_spec_string ("title", NULL, NULL, "", flags);
  /**
   * LlmsvcModel:architecture:
   *
   * The kind of model, such as `llama`; "" when the file does not say.
   *
   * Since: 0.1
   */
  properties[PROP_ARCHITECTURE] = g_param_spec_string ("architecture", NULL, NULL, "", flags);
  /**
   * LlmsvcModel:quantization:
   *
   * How its weights are stored, such as `Q8_0`; "" when the file does not say.
   *
   * Since: 0.1
   */
  properties[PROP_QUANTIZATION] = g_param_spec_string ("quantization", NULL, NULL, "", flags);
  /**
   * LlmsvcModel:license:
   *
   * Its license; "" when the file does not say.
   *
   * Since: 0.1
   */
  properties[PROP_LICENSE] = g_param_spec_string ("license", NULL, NULL, "", flags);
  /**
   * LlmsvcModel:n-parameters:
   *
   * How many parameters it has; 0 when that is not known.
   *
   * Since: 0.1
   */
  properties[PROP_N_PARAMETERS] =
    g_param_spec_uint64 ("n-parameters", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * LlmsvcModel:file-bytes:
   *
   * The size of its file, in bytes.
   *
   * Since: 0.1
   */
  properties[PROP_FILE_BYTES] =
    g_param_spec_uint64 ("file-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * LlmsvcModel:context-length:
   *
   * The longest text that it can hold, in tokens.
   *
   * Since: 0.1
   */
  properties[PROP_CONTEXT_LENGTH] =
    g_param_spec_uint ("context-length", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * LlmsvcModel:info:
   *
   * Everything that the service tells of it, of type `a{sv}`.
   *
   * Since: 0.1
   */
  properties[PROP_INFO] =
    g_param_spec_variant ("info", NULL, NULL, G_VARIANT_TYPE_VARDICT, NULL, flags);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
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
               guint        property)
{
  const char *value;

  if (!g_variant_lookup (values, key, "&s", &value) || g_str_equal (*field, value))
    return;

  g_free (*field);
  *field = g_strdup (value);
  g_object_notify_by_pspec (G_OBJECT (self), properties[property]);
}

void
llmsvc_model_update (LlmsvcModel *self,
                     GVariant    *values)
{
  g_autoptr(GVariant) info = NULL;

  g_return_if_fail (LLMSVC_IS_MODEL (self));
  g_return_if_fail (g_variant_is_of_type (values, G_VARIANT_TYPE_VARDICT));

  g_object_freeze_notify (G_OBJECT (self));
  update_string (self, &self->id, values, "Id", PROP_ID);
  update_string (self, &self->title, values, "Title", PROP_TITLE);
  info = g_variant_lookup_value (values, "Info", G_VARIANT_TYPE_VARDICT);
  if (info != NULL && !g_variant_equal (info, self->info))
    {
      g_variant_unref (self->info);
      self->info = g_steal_pointer (&info);
      /* Serialized, its strings stay where they are for as long as it lives. */
      (void) g_variant_get_data (self->info);
      for (guint i = PROP_ARCHITECTURE; i < N_PROPERTIES; i++)
        g_object_notify_by_pspec (G_OBJECT (self), properties[i]);
    }
  g_object_thaw_notify (G_OBJECT (self));
}

const char *
llmsvc_model_get_path (LlmsvcModel *self)
{
  return self->path;
}

/**
 * llmsvc_model_get_id:
 * @self: a model
 *
 * Gets the name for [method@Llmsvc.Client.select_model_async].
 *
 * Returns: (transfer none): the name
 *
 * Since: 0.1
 */
const char *
llmsvc_model_get_id (LlmsvcModel *self)
{
  g_return_val_if_fail (LLMSVC_IS_MODEL (self), NULL);

  return self->id;
}

/**
 * llmsvc_model_get_title:
 * @self: a model
 *
 * Gets the name for people.
 *
 * Returns: (transfer none): the name
 *
 * Since: 0.1
 */
const char *
llmsvc_model_get_title (LlmsvcModel *self)
{
  g_return_val_if_fail (LLMSVC_IS_MODEL (self), NULL);

  return self->title;
}

/**
 * llmsvc_model_get_architecture:
 * @self: a model
 *
 * Gets the kind of model, such as `llama`.
 *
 * Returns: (transfer none): the kind, "" when the file does not say
 *
 * Since: 0.1
 */
const char *
llmsvc_model_get_architecture (LlmsvcModel *self)
{
  g_return_val_if_fail (LLMSVC_IS_MODEL (self), NULL);

  return llmsvc_dict_get_string (self->info, "architecture");
}

/**
 * llmsvc_model_get_quantization:
 * @self: a model
 *
 * Gets how its weights are stored, such as `Q8_0`.
 *
 * Returns: (transfer none): the format, "" when the file does not say
 *
 * Since: 0.1
 */
const char *
llmsvc_model_get_quantization (LlmsvcModel *self)
{
  g_return_val_if_fail (LLMSVC_IS_MODEL (self), NULL);

  return llmsvc_dict_get_string (self->info, "quantization");
}

/**
 * llmsvc_model_get_license:
 * @self: a model
 *
 * Gets its license.
 *
 * Returns: (transfer none): the license, "" when the file does not say
 *
 * Since: 0.1
 */
const char *
llmsvc_model_get_license (LlmsvcModel *self)
{
  g_return_val_if_fail (LLMSVC_IS_MODEL (self), NULL);

  return llmsvc_dict_get_string (self->info, "license");
}

/**
 * llmsvc_model_get_n_parameters:
 * @self: a model
 *
 * Gets how many parameters it has.
 *
 * Returns: the number, 0 when it is not known
 *
 * Since: 0.1
 */
guint64
llmsvc_model_get_n_parameters (LlmsvcModel *self)
{
  g_return_val_if_fail (LLMSVC_IS_MODEL (self), 0);

  return llmsvc_dict_get_uint64 (self->info, "parameters");
}

/**
 * llmsvc_model_get_file_bytes:
 * @self: a model
 *
 * Gets the size of its file.
 *
 * Returns: bytes
 *
 * Since: 0.1
 */
guint64
llmsvc_model_get_file_bytes (LlmsvcModel *self)
{
  g_return_val_if_fail (LLMSVC_IS_MODEL (self), 0);

  return llmsvc_dict_get_uint64 (self->info, "file-bytes");
}

/**
 * llmsvc_model_get_context_length:
 * @self: a model
 *
 * Gets the longest text that it can hold.
 *
 * Returns: tokens
 *
 * Since: 0.1
 */
guint
llmsvc_model_get_context_length (LlmsvcModel *self)
{
  g_return_val_if_fail (LLMSVC_IS_MODEL (self), 0);

  return llmsvc_dict_get_uint (self->info, "context-length");
}

/**
 * llmsvc_model_get_info:
 * @self: a model
 *
 * Gets everything that the service tells of it.
 *
 * Returns: (transfer none): an `a{sv}`
 *
 * Since: 0.1
 */
GVariant *
llmsvc_model_get_info (LlmsvcModel *self)
{
  g_return_val_if_fail (LLMSVC_IS_MODEL (self), NULL);

  return self->info;
}
