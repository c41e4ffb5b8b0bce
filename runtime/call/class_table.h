// What the runtime knows of an actor class: how to make one, and its methods by ordinal. Tables are built
// from templates at compile time (actors/troupe/actor.h) and live as long as the program.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/base/error.h"
#include "core/codec/buffer.h"

namespace troupe {

class Invocation;

struct MethodEntry {
  // Reads the arguments; throws DecodeError. The invocation is the caller's to hand on.
  Invocation* (*decode)(Reader& args);
  bool writes = true;  // false: a const method, or one that is built in
};

struct ClassTable {
  const char* name;
  void* (*construct)(Reader& args);  // throws what the constructor throws
  void (*destroy)(void* actor);
  std::span<const MethodEntry> methods;
  int concurrency;  // calls that may be in progress at the same time
  // Of a class with save and load, else null. They throw what the class's own throw.
  void (*save)(const void* actor, Writer& to) = nullptr;
  void (*load)(void* actor, Reader& from) = nullptr;
};

// The classes of this program. Filled at start-up by troupe::Runtime, read by any thread afterwards.
Result<void> register_classes(std::span<const ClassTable* const> classes);
const ClassTable* find_class(const std::string& name);
std::string class_names();  // for messages

// The error for an exception that is being handled, with its type, message and where it was thrown.
Error current_error();

}  // namespace troupe
