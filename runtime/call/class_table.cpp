#include "runtime/call/class_table.h"

#include <map>

namespace troupe {
namespace {

std::map<std::string, const ClassTable*>& classes() {
  static std::map<std::string, const ClassTable*> known;
  return known;
}

}  // namespace

Result<void> register_classes(std::span<const ClassTable* const> tables) {
  for (const ClassTable* table : tables) {
    auto [at, fresh] = classes().emplace(table->name, table);
    if (!fresh && at->second != table) {
      return Error(ErrorKind::already_exists,
                   std::string("two actor classes are called \"") + table->name +
                       "\": give one another name in its troupe::actor description");
    }
  }
  return {};
}

const ClassTable* find_class(const std::string& name) {
  auto at = classes().find(name);
  return at == classes().end() ? nullptr : at->second;
}

std::string class_names() {
  std::string text;
  for (const auto& [name, table] : classes()) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

}  // namespace troupe
