// A reader of JSON for what the server sends: settings, parameters of requests, replies.
#include <stdlib.h>
#include "host.h"

#define DEEPEST 64

typedef struct { const char *at, *end; int depth; } Reader;

static Json *read_value(Reader *reader);

static void skip_space(Reader *reader) {
  while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) != NULL) reader->at++;
}

static bool take(Reader *reader, char c) {
  skip_space(reader);
  if (reader->at >= reader->end || *reader->at != c) return false;
  reader->at++;
  return true;
}

static bool take_word(Reader *reader, const char *word) {
  size_t bytes = strlen(word);
  if ((size_t)(reader->end - reader->at) < bytes || memcmp(reader->at, word, bytes) != 0) return false;
  reader->at += bytes;
  return true;
}

static int read_hex(Reader *reader) {
  if (reader->end - reader->at < 4) return -1;
  int code = 0;
  for (int i = 0; i < 4; i++) {
    char c = *reader->at++;
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    code = code * 16 + digit;
  }
  return code;
}

static void add_code_point(Text *text, uint32_t code) {
  char bytes[4];
  size_t count;
  if (code < 0x80) { bytes[0] = (char)code; count = 1; }
  else if (code < 0x800) { bytes[0] = (char)(0xc0 | code >> 6); bytes[1] = (char)(0x80 | (code & 63)); count = 2; }
  else if (code < 0x10000) {
    bytes[0] = (char)(0xe0 | code >> 12);
    bytes[1] = (char)(0x80 | (code >> 6 & 63));
    bytes[2] = (char)(0x80 | (code & 63));
    count = 3;
  } else {
    bytes[0] = (char)(0xf0 | code >> 18);
    bytes[1] = (char)(0x80 | (code >> 12 & 63));
    bytes[2] = (char)(0x80 | (code >> 6 & 63));
    bytes[3] = (char)(0x80 | (code & 63));
    count = 4;
  }
  text_add(text, bytes, count);
}

static bool read_escape(Reader *reader, Text *text) {
  if (reader->at >= reader->end) return false;
  char c = *reader->at++;
  const char *plain = strchr("\"\"\\\\//b\bf\fn\nr\rt\t", c);
  if (c != 'u') {
    if (plain == NULL || c == 0) return false;
    text_add(text, plain + 1, 1);
    return true;
  }
  int code = read_hex(reader);
  if (code < 0) return false;
  if (code >= 0xd800 && code < 0xdc00 && take_word(reader, "\\u")) {
    int low = read_hex(reader);
    if (low < 0xdc00 || low > 0xdfff) return false;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  add_code_point(text, (uint32_t)code);
  return true;
}

// The text is the caller's; NULL when there is no string.
static char *read_string(Reader *reader) {
  if (!take(reader, '"')) return NULL;
  Text text = {0};
  text_add(&text, "", 0);
  while (reader->at < reader->end) {
    char c = *reader->at++;
    if (c == '"') return text.bytes;
    if (c != '\\') text_add(&text, &c, 1);
    else if (!read_escape(reader, &text)) break;
  }
  text_free(&text);
  return NULL;
}

static bool read_number(Reader *reader, Json *value) {
  char digits[64];
  size_t count = 0;
  bool is_integer = true;
  while (reader->at < reader->end && strchr("+-.eE0123456789", *reader->at) != NULL && *reader->at != 0) {
    if (count == sizeof digits - 1) return false;
    if (strchr(".eE", *reader->at) != NULL) is_integer = false;
    digits[count++] = *reader->at++;
  }
  if (count == 0) return false;
  digits[count] = 0;
  char *end = NULL;
  value->number = strtod(digits, &end);
  if (*end != 0) return false;
  value->kind = is_integer ? JSON_INTEGER : JSON_NUMBER;
  value->integer = is_integer ? strtoll(digits, NULL, 10) : 0;
  return true;
}

static bool read_members(Reader *reader, Json *value, bool has_names) {
  char close = has_names ? '}' : ']';
  Json **last = &value->first;
  if (++reader->depth > DEEPEST) return false;
  if (take(reader, close)) { reader->depth--; return true; }
  do {
    char *name = has_names ? read_string(reader) : NULL;
    Json *member = has_names && (name == NULL || !take(reader, ':')) ? NULL : read_value(reader);
    if (member == NULL) { free(name); return false; }
    member->name = name;
    *last = member;
    last = &member->next;
  } while (take(reader, ','));
  reader->depth--;
  return take(reader, close);
}

static Json *read_value(Reader *reader) {
  skip_space(reader);
  if (reader->at >= reader->end) return NULL;
  Json *value = allocate(sizeof *value);
  bool is_good = true;
  char c = *reader->at;
  if (c == '{' || c == '[') {
    reader->at++;
    value->kind = c == '{' ? JSON_OBJECT : JSON_ARRAY;
    is_good = read_members(reader, value, c == '{');
  } else if (c == '"') {
    value->kind = JSON_STRING;
    value->text = read_string(reader);
    is_good = value->text != NULL;
  } else if (take_word(reader, "true")) value->kind = JSON_TRUE;
  else if (take_word(reader, "false")) value->kind = JSON_FALSE;
  else if (take_word(reader, "null")) value->kind = JSON_NULL;
  else is_good = read_number(reader, value);
  if (is_good) return value;
  json_free(value);
  return NULL;
}

Json *json_parse(const char *text, size_t bytes) {
  Reader reader = {text, text + bytes, 0};
  Json *value = read_value(&reader);
  skip_space(&reader);
  if (value != NULL && reader.at == reader.end) return value;
  json_free(value);
  return NULL;
}

void json_free(Json *value) {
  while (value != NULL) {
    Json *next = value->next;
    json_free(value->first);
    free(value->name);
    free(value->text);
    free(value);
    value = next;
  }
}

const Json *json_member(const Json *object, const char *name) {
  if (object == NULL || object->kind != JSON_OBJECT) return NULL;
  for (const Json *member = object->first; member != NULL; member = member->next)
    if (strcmp(member->name, name) == 0) return member;
  return NULL;
}

const char *json_text(const Json *object, const char *name, const char *fallback) {
  const Json *member = json_member(object, name);
  return member != NULL && member->kind == JSON_STRING ? member->text : fallback;
}

int64_t json_integer(const Json *object, const char *name, int64_t fallback) {
  const Json *member = json_member(object, name);
  return member != NULL && member->kind == JSON_INTEGER ? member->integer : fallback;
}

bool json_flag(const Json *object, const char *name) {
  const Json *member = json_member(object, name);
  return member != NULL && member->kind == JSON_TRUE;
}

size_t json_count(const Json *list) {
  size_t count = 0;
  if (list != NULL && list->kind == JSON_ARRAY)
    for (const Json *each = list->first; each != NULL; each = each->next) count++;
  return count;
}
