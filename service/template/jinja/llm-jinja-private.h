/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Inside the Jinja interpreter.
 *
 * All that a parse or a rendering makes lies in one arena of limited size. A failure leaves by
 * longjmp() to the entry point, which frees the arena: nothing here has memory of its own. A text
 * knows which runs of its bytes come from where, so that what an app wrote stays known as such. */

#pragma once

#include <setjmp.h>

#include "template/jinja/llm-jinja.h"

typedef guint16 LlmJinjaOrigin;

typedef struct _LlmJinjaNode LlmJinjaNode;
typedef struct _LlmJinjaList LlmJinjaList;
typedef struct _LlmJinjaDict LlmJinjaDict;
typedef struct _LlmJinjaFunction LlmJinjaFunction;
typedef struct _LlmJinjaScope LlmJinjaScope;
typedef struct _LlmJinjaLoop LlmJinjaLoop;

typedef enum
{
  LLM_JINJA_UNDEFINED, LLM_JINJA_NONE, LLM_JINJA_BOOL, LLM_JINJA_INT, LLM_JINJA_FLOAT,
  LLM_JINJA_STRING, LLM_JINJA_LIST, LLM_JINJA_DICT, LLM_JINJA_NAMESPACE, LLM_JINJA_FUNCTION,
} LlmJinjaType;

/* Text that grows. What lies before its length never changes, so strings are views of it. */
typedef struct
{
  char *bytes;
  gsize length;
  gsize room;
  LlmJinjaRun *runs;        /* no two neighbours have one origin */
  guint n_runs;
  guint n_run_room;
  LlmJinjaRun first;        /* most texts have no more */
} LlmJinjaText;

typedef struct
{
  const char *bytes;        /* valid UTF-8, not terminated */
  gsize length;
  LlmJinjaText *text;       /* that knows their origins; a string at its end grows in place. NULL:
                             * they are the template's own */
  gsize start;              /* in @text */
} LlmJinjaString;

typedef struct
{
  guint8 type;              /* LlmJinjaType */
  gboolean is_html : 1;     /* a string of “safe” or “escape”: what is added to it is escaped */
  LlmJinjaOrigin origin;    /* of what is no string, for its text; of an empty string */
  union
  {
    gboolean boolean;
    gint64 integer;
    struct
    {
      double number;
      const char *digits;   /* (nullable): of a number of JSON, as written, which @number can't hold:
                             * what is calculated with it is rounded */
    };
    LlmJinjaString string;
    LlmJinjaList *list;
    LlmJinjaDict *dict;     /* and of a namespace */
    LlmJinjaFunction *function;
    const char *name;       /* (nullable): of what is undefined, for messages */
  };
} LlmJinjaValue;

typedef enum
{
  LLM_JINJA_LIST_LIST,
  LLM_JINJA_LIST_TUPLE,
  LLM_JINJA_LIST_RANGE,
  LLM_JINJA_LIST_KEYS,      /* views of a dict */
  LLM_JINJA_LIST_VALUES,
  LLM_JINJA_LIST_ITEMS,
  LLM_JINJA_LIST_GENERATOR, /* has neither length nor text, and can be walked once */
} LlmJinjaListKind;

struct _LlmJinjaList
{
  LlmJinjaListKind kind;
  LlmJinjaValue *items;
  guint n_items;
  guint n_room;
  guint next;               /* of a generator: the first item that was not taken */
};

typedef struct
{
  LlmJinjaValue key;
  LlmJinjaValue value;
} LlmJinjaEntry;

struct _LlmJinjaDict
{
  LlmJinjaEntry *entries;   /* in the order they were added */
  guint n_entries;
  guint n_room;
  guint *table;             /* (nullable): of indexes + 1 by hash, where there are many */
  guint n_table;
};

/* Of a call. */
typedef struct
{
  LlmJinjaValue *values;
  guint n_values;
  const char **names;       /* of the last n_names values */
  guint n_names;
} LlmJinjaArgs;

typedef struct _LlmJinja LlmJinja;
typedef struct _LlmJinjaBuiltin LlmJinjaBuiltin;

struct _LlmJinjaFunction
{
  const char *name;
  const LlmJinjaBuiltin *builtin; /* (nullable) */
  LlmJinjaValue subject;    /* what the method belongs to */
  const LlmJinjaNode *node; /* (nullable): a macro, or a call block's body */
  LlmJinjaScope *scope;     /* where that was defined */
  LlmJinjaLoop *loop;       /* (nullable): this is its variable “loop” */
};

struct _LlmJinjaScope
{
  LlmJinjaScope *parent;    /* (nullable) */
  const char **names;       /* interned: compared by address */
  LlmJinjaValue *values;
  guint n_names;
  guint n_room;
};

/* --- the tree --- */

typedef enum
{
  /* expressions */
  LLM_JINJA_NODE_CONST,
  LLM_JINJA_NODE_NAME,
  LLM_JINJA_NODE_LIST,      /* items */
  LLM_JINJA_NODE_TUPLE,
  LLM_JINJA_NODE_DICT,      /* items: key, value, key, … */
  LLM_JINJA_NODE_ATTRIBUTE, /* a.name */
  LLM_JINJA_NODE_ITEM,      /* a[b] */
  LLM_JINJA_NODE_SLICE,     /* a[items 0:1:2], each may be NULL */
  LLM_JINJA_NODE_CALL,      /* a (items, *b, **c), as in the next two */
  LLM_JINJA_NODE_FILTER,    /* a | name (items); a NULL: the body of a block */
  LLM_JINJA_NODE_TEST,      /* a is name (items) */
  LLM_JINJA_NODE_NOT,
  LLM_JINJA_NODE_AND,
  LLM_JINJA_NODE_OR,
  LLM_JINJA_NODE_SIGN,      /* op a */
  LLM_JINJA_NODE_BINARY,    /* a op b */
  LLM_JINJA_NODE_CONCAT,    /* items */
  LLM_JINJA_NODE_COMPARE,   /* items 0 op 1 op 2 …, with ops in items[i].op */
  LLM_JINJA_NODE_IF_ELSE,   /* a if b else c */
  /* statements */
  LLM_JINJA_NODE_TEXT,
  LLM_JINJA_NODE_OUTPUT,    /* a */
  LLM_JINJA_NODE_FOR,       /* a in b if c: body, others; op: recursive */
  LLM_JINJA_NODE_IF,        /* a: body, others */
  LLM_JINJA_NODE_SET,       /* a = b */
  LLM_JINJA_NODE_SET_BLOCK, /* a = body, through the filters b */
  LLM_JINJA_NODE_FILTER_BLOCK, /* body through the filters a */
  LLM_JINJA_NODE_MACRO,     /* name (params): body */
  LLM_JINJA_NODE_CALL_BLOCK, /* a with body as its caller (params) */
  LLM_JINJA_NODE_WITH,      /* items: target, value, …: body */
  LLM_JINJA_NODE_SCOPE,     /* body in a scope of its own */
  LLM_JINJA_NODE_BREAK,
  LLM_JINJA_NODE_CONTINUE,
} LlmJinjaNodeKind;

typedef struct
{
  LlmJinjaNode **items;
  guint n_items;
  guint n_room;
} LlmJinjaNodes;

struct _LlmJinjaNode
{
  guint8 kind;              /* LlmJinjaNodeKind */
  guint8 op;                /* LlmJinjaOp, or a flag */
  guint32 at;               /* byte of the source */
  const char *name;         /* interned */
  LlmJinjaValue value;
  LlmJinjaNode *a;
  LlmJinjaNode *b;
  LlmJinjaNode *c;
  LlmJinjaNodes items;
  LlmJinjaNodes body;
  LlmJinjaNodes others;
  const char **names;       /* of the last n_names items (arguments), or of parameters, whose */
  guint n_names;            /* defaults are the items, for the last of them */
};

typedef enum
{
  LLM_JINJA_OP_NONE,
  LLM_JINJA_OP_ADD, LLM_JINJA_OP_SUB, LLM_JINJA_OP_MUL, LLM_JINJA_OP_DIV, LLM_JINJA_OP_FLOORDIV,
  LLM_JINJA_OP_MOD, LLM_JINJA_OP_POW,
  LLM_JINJA_OP_EQ, LLM_JINJA_OP_NE, LLM_JINJA_OP_LT, LLM_JINJA_OP_LE, LLM_JINJA_OP_GT,
  LLM_JINJA_OP_GE, LLM_JINJA_OP_IN, LLM_JINJA_OP_NOT_IN,
} LlmJinjaOp;

/* --- a parse or a rendering --- */

typedef enum
{
  LLM_JINJA_GO_ON,
  LLM_JINJA_LEAVE_LOOP,
  LLM_JINJA_NEXT_ROUND,
} LlmJinjaFlow;

struct _LlmJinja
{
  GPtrArray *blocks;        /* (element-type gpointer): the arena */
  char *block;              /* what is left of the last one */
  gsize n_left;
  gsize n_bytes;
  gsize max_bytes;
  guint64 n_steps;
  guint64 max_steps;
  guint64 n_timed;          /* of the steps, when the clock was read last */
  gint64 end_us;            /* of this thread's processor time */
  guint depth;

  const char *source;       /* for the line of a failure */
  gsize source_length;
  guint32 at;               /* of the node at work */
  GError *error;
  jmp_buf leave;

  GHashTable *names;        /* (unowned): the interned ones, of the template */
  LlmJinjaScope *scope;     /* at work */
  LlmJinjaText *out;        /* where output goes */
  LlmJinjaValue hole;       /* what the filters of a block are applied to */
  gsize max_output;
  gint64 now_s;             /* for strftime_now */
  gboolean has_raised;      /* the failure is the template's own word */
};

/* --- memory and limits --- */

/* Work that is counted as one step. */
#define LLM_JINJA_STEP_BYTES 64

void *llm_jinja_alloc (LlmJinja *self, gsize n_bytes); /* (transfer none): zeroed */
void llm_jinja_clear (LlmJinja *self);
/* UNSUPPORTED with line and column of @at. Does not return. */
G_NORETURN void llm_jinja_fail (LlmJinja *self, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* Counts a node, an entry or LLM_JINJA_STEP_BYTES of a text, so that nothing runs without end. */
void llm_jinja_step (LlmJinja *self, gsize n);
/* Counts the texts among @values, which are given to a builtin. */
void llm_jinja_charge (LlmJinja *self, const LlmJinjaValue *values, guint n_values);
/* Around whatever calls itself. */
void llm_jinja_enter (LlmJinja *self);

static inline void
llm_jinja_leave (LlmJinja *self)
{
  self->depth--;
}

/* (transfer none): the one address of this name. */
const char *llm_jinja_intern (LlmJinja *self, const char *name, gsize length);
/* Room for one more of @size; returns its new capacity. */
void *llm_jinja_grow (LlmJinja *self, void *items, guint n_items, guint *n_room, gsize size);
void llm_jinja_nodes_add (LlmJinja *self, LlmJinjaNodes *nodes, LlmJinjaNode *node);

/* --- texts --- */

LlmJinjaText *llm_jinja_text_new (LlmJinja *self);
/* (transfer none): that of the byte @at, which one of them has. */
const LlmJinjaRun *llm_jinja_find_run (const LlmJinjaRun *runs, guint n_runs, gsize at);
/* With its origins, as the next. */
void llm_jinja_text_add (LlmJinja *self, LlmJinjaText *text, const LlmJinjaString *string);
void llm_jinja_text_add_part (LlmJinja *self, LlmJinjaText *text, const LlmJinjaString *string,
                              gsize start, gsize end);
void llm_jinja_text_add_bytes (LlmJinja *self, LlmJinjaText *text, const char *bytes, gsize length,
                               LlmJinjaOrigin origin);
LlmJinjaValue llm_jinja_text_end (LlmJinjaText *text);
LlmJinjaValue llm_jinja_string_new (LlmJinja *self, const char *bytes, gsize length,
                                    LlmJinjaOrigin origin);
LlmJinjaValue llm_jinja_spaces (LlmJinja *self, gint64 n);
/* (transfer none): with a NUL at its end. */
char *llm_jinja_copy (LlmJinja *self, const LlmJinjaString *string);
/* Of a byte that it has. */
LlmJinjaOrigin llm_jinja_string_get_origin (const LlmJinjaString *string, gsize at);
/* A view of some of its bytes. */
LlmJinjaValue llm_jinja_string_cut (const LlmJinjaString *string, gsize start, gsize end);
LlmJinjaValue llm_jinja_string_join (LlmJinja *self, const LlmJinjaString *a,
                                     const LlmJinjaString *b);
gboolean llm_jinja_string_is (const LlmJinjaString *string, const char *text);
/* G_MAXSIZE: it is not there. The last one ends at or before @end. */
gsize llm_jinja_string_find (LlmJinja *self, const LlmJinjaString *string,
                             const LlmJinjaString *part, gsize from);
gsize llm_jinja_string_find_last (LlmJinja *self, const LlmJinjaString *string,
                                  const LlmJinjaString *part, gsize end);
/* In characters. */
gsize llm_jinja_string_count (const LlmJinjaString *string);
/* The byte behind the character at @at. */
gsize llm_jinja_next_character (const LlmJinjaString *string, gsize at);
/* The byte of character @index; the length where it has fewer. */
gsize llm_jinja_string_offset (const LlmJinjaString *string, gsize index);
/* Without characters of @set (nullable: spaces) at its ends. */
LlmJinjaValue llm_jinja_string_trim (const LlmJinjaString *string, const LlmJinjaString *set,
                                     gboolean at_start, gboolean at_end);
/* At most @max times, all where it is negative. */
LlmJinjaValue llm_jinja_string_replace (LlmJinja *self, const LlmJinjaString *string,
                                        const LlmJinjaString *old, const LlmJinjaString *with,
                                        gint64 max);
gboolean llm_jinja_is_space (gunichar c);

typedef enum
{
  LLM_JINJA_CLASS_ALNUM, LLM_JINJA_CLASS_ALPHA, LLM_JINJA_CLASS_DIGIT, LLM_JINJA_CLASS_SPACE,
  LLM_JINJA_CLASS_LOWER, LLM_JINJA_CLASS_UPPER,
} LlmJinjaClass;

/* str.isalnum() and so on: all of it; of the last two, what has a case at all. */
gboolean llm_jinja_string_is_of (const LlmJinjaString *string, LlmJinjaClass class);
/* With & < > " ' as HTML writes them, unless it is safe already. */
LlmJinjaValue llm_jinja_string_escape (LlmJinja *self, const LlmJinjaValue *value);

/* --- values --- */

static inline LlmJinjaValue
llm_jinja_none (void)
{
  return (LlmJinjaValue) { .type = LLM_JINJA_NONE };
}

static inline LlmJinjaValue
llm_jinja_undefined (const char *name)
{
  return (LlmJinjaValue) { .type = LLM_JINJA_UNDEFINED, .name = name };
}

static inline LlmJinjaValue
llm_jinja_bool (gboolean boolean)
{
  return (LlmJinjaValue) { .type = LLM_JINJA_BOOL, .boolean = boolean };
}

static inline LlmJinjaValue
llm_jinja_int (gint64         integer,
               LlmJinjaOrigin origin)
{
  return (LlmJinjaValue) { .type = LLM_JINJA_INT, .origin = origin, .integer = integer };
}

static inline LlmJinjaValue
llm_jinja_float (double         number,
                 LlmJinjaOrigin origin)
{
  return (LlmJinjaValue) { .type = LLM_JINJA_FLOAT, .origin = origin, .number = number };
}

/* Of the text that is written for it, by its first byte. */
static inline LlmJinjaOrigin
llm_jinja_get_origin (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_STRING && value->string.length > 0
           ? llm_jinja_string_get_origin (&value->string, 0) : value->origin;
}

LlmJinjaValue llm_jinja_list_new (LlmJinja *self, LlmJinjaListKind kind);
void llm_jinja_list_add (LlmJinja *self, LlmJinjaList *list, LlmJinjaValue value);
void llm_jinja_list_add_all (LlmJinja *self, LlmJinjaList *list, const LlmJinjaList *more);
void llm_jinja_list_reverse (LlmJinjaList *list);
LlmJinjaValue llm_jinja_dict_new (LlmJinja *self);
/* (nullable), as the next. */
LlmJinjaValue *llm_jinja_dict_get (LlmJinja *self, const LlmJinjaDict *dict,
                                   const LlmJinjaValue *key);
LlmJinjaValue *llm_jinja_dict_get_name (LlmJinja *self, const LlmJinjaDict *dict, const char *name);
void llm_jinja_dict_set (LlmJinja *self, LlmJinjaDict *dict, LlmJinjaValue key,
                         LlmJinjaValue value);
void llm_jinja_dict_set_name (LlmJinja *self, LlmJinjaDict *dict, const char *name,
                              LlmJinjaValue value);
/* @builtin (nullable): else a macro or a loop, which the caller sets. */
LlmJinjaValue llm_jinja_new_method (LlmJinja *self, const char *name,
                                    const LlmJinjaBuiltin *builtin, const LlmJinjaValue *subject);
gboolean llm_jinja_is_true (const LlmJinjaValue *value);
gboolean llm_jinja_is_number (const LlmJinjaValue *value); /* and bool, as in Python */
double llm_jinja_get_number (const LlmJinjaValue *value);
gboolean llm_jinja_equal (LlmJinja *self, const LlmJinjaValue *a, const LlmJinjaValue *b);
/* Negative, 0, positive; fails where they have no order. */
int llm_jinja_compare (LlmJinja *self, const LlmJinjaValue *a, const LlmJinjaValue *b);
/* Of a comparison. */
gboolean llm_jinja_holds (LlmJinja *self, LlmJinjaOp op, const LlmJinjaValue *a,
                          const LlmJinjaValue *b);
/* What a loop walks over: items of a list, keys, characters. Takes all of a generator. */
LlmJinjaList *llm_jinja_iterate (LlmJinja *self, const LlmJinjaValue *value);
/* For messages, as Python's or Jinja's own name of the type. */
const char *llm_jinja_type_name (const LlmJinjaValue *value);
/* FALSE where it has none. */
gboolean llm_jinja_get_length (LlmJinja *self, const LlmJinjaValue *value, gint64 *length);
/* By key, equal ones in the order they have. */
void llm_jinja_sort (LlmJinja *self, LlmJinjaEntry *entries, guint n_entries, gboolean is_reverse);

/* --- values as text --- */

/* json.dumps() of Python. */
typedef struct
{
  gboolean is_ascii;
  gboolean sorts_keys;
  LlmJinjaValue indent;       /* no string: on one line */
  LlmJinjaString item_separator;
  LlmJinjaString key_separator;
} LlmJinjaJsonStyle;

/* str() and repr() of Python. */
LlmJinjaValue llm_jinja_to_string (LlmJinja *self, const LlmJinjaValue *value);
void llm_jinja_print_repr (LlmJinja *self, LlmJinjaText *text, const LlmJinjaValue *value);
void llm_jinja_print_json (LlmJinja *self, LlmJinjaText *text, const LlmJinjaValue *value,
                           const LlmJinjaJsonStyle *style);
/* FALSE if it is no JSON; values and keys get @origin. */
gboolean llm_jinja_read_json (LlmJinja *self, const char *text, LlmJinjaOrigin origin,
                              LlmJinjaValue *value);

/* --- builtins --- */

/* What the template left out is undefined without a name. */
gboolean llm_jinja_arg_given (const LlmJinjaValue *value);
gint64 llm_jinja_need_int (LlmJinja *self, const char *function, const LlmJinjaValue *value);
const LlmJinjaString *llm_jinja_need_string (LlmJinja *self, const char *function,
                                             const LlmJinjaValue *value);
LlmJinjaValue llm_jinja_run_builtin (LlmJinja *self, const LlmJinjaBuiltin *builtin,
                                     const LlmJinjaValue *subject, const LlmJinjaArgs *args);
LlmJinjaValue llm_jinja_run_filter (LlmJinja *self, const char *name, const LlmJinjaValue *subject,
                                    const LlmJinjaArgs *args);
gboolean llm_jinja_run_test (LlmJinja *self, const char *name, const LlmJinjaValue *subject,
                             const LlmJinjaArgs *args);
/* A method of a value, undefined where it has none; fails where Python has one that templates
 * can't call here. */
LlmJinjaValue llm_jinja_find_method (LlmJinja *self, const LlmJinjaValue *value, const char *name);
void llm_jinja_add_globals (LlmJinja *self, LlmJinjaScope *scope);
/* The operator %. */
LlmJinjaValue llm_jinja_format_percent (LlmJinja *self, const LlmJinjaString *format,
                                        const LlmJinjaArgs *args);

/* --- operators --- */

LlmJinjaValue llm_jinja_calculate (LlmJinja *self, LlmJinjaOp op, const LlmJinjaValue *a,
                                   const LlmJinjaValue *b);
LlmJinjaValue llm_jinja_concat (LlmJinja *self, const LlmJinjaValue *values, guint n_values);
/* a.name and a['name'] differ in what comes first, methods or items. */
LlmJinjaValue llm_jinja_get_attribute (LlmJinja *self, const LlmJinjaValue *value,
                                       const char *name);
LlmJinjaValue llm_jinja_get_item (LlmJinja *self, const LlmJinjaValue *value,
                                  const LlmJinjaValue *key);
/* @bounds: start, end, step; none where left out. */
LlmJinjaValue llm_jinja_get_slice (LlmJinja *self, const LlmJinjaValue *value,
                                   const LlmJinjaValue *bounds);

/* --- running a tree: these call each other, as deep as llm_jinja_enter() lets them --- */

/* Flags in a macro's op. */
#define LLM_JINJA_HAS_VARARGS 1
#define LLM_JINJA_HAS_KWARGS 2

LlmJinjaValue llm_jinja_evaluate (LlmJinja *self, const LlmJinjaNode *node);
/* The call @node with @caller (nullable) as one more argument of this name. */
LlmJinjaValue llm_jinja_evaluate_call (LlmJinja *self, const LlmJinjaNode *node,
                                       const LlmJinjaValue *caller);
LlmJinjaFlow llm_jinja_execute (LlmJinja *self, const LlmJinjaNodes *body);
/* Of a macro or a call block. */
LlmJinjaValue llm_jinja_run_macro (LlmJinja *self, const LlmJinjaFunction *function,
                                   const LlmJinjaArgs *args);
LlmJinjaFlow llm_jinja_run_loop (LlmJinja *self, const LlmJinjaNode *node,
                                 const LlmJinjaValue *over, guint depth);
/* loop.name */
LlmJinjaValue llm_jinja_loop_get (LlmJinja *self, LlmJinjaLoop *loop, const char *name);
/* loop (over), in a recursive one: the text of that round; or one of its methods. */
LlmJinjaValue llm_jinja_loop_call (LlmJinja *self, const LlmJinjaFunction *function,
                                   const LlmJinjaArgs *args);

/* --- variables --- */

void llm_jinja_assign (LlmJinja *self, const LlmJinjaNode *target, LlmJinjaValue value);
LlmJinjaScope *llm_jinja_scope_new (LlmJinja *self, LlmJinjaScope *parent);
void llm_jinja_scope_set (LlmJinja *self, LlmJinjaScope *scope, const char *name,
                          LlmJinjaValue value);
LlmJinjaValue llm_jinja_scope_get (LlmJinja *self, const char *name);
