// Turns the exception being handled into an Error: its type, message, and the stack at the throw.
//
// The stack is taken where exceptions are thrown, by standing in front of the C++ runtime's __cxa_throw; only
// while an actor's code runs, so that other code pays one test.
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <typeinfo>

#include "core/base/throws_error.h"
#include "runtime/call/actor_cell.h"
#include "runtime/call/backtrace.h"
#include "runtime/call/class_table.h"

namespace troupe {
namespace {

constexpr int kMostFrames = 24;

struct ThrowSite {
  void* frames[kMostFrames];
  int count = 0;
};
thread_local ThrowSite last_throw;

std::string readable(const char* name) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                              std::free);
  return status == 0 ? text.get() : name;
}

}  // namespace

Error current_error() {
  Error error(ErrorKind::actor_error, "an exception of unknown type");
  if (const std::type_info* type = abi::__cxa_current_exception_type()) error.type = readable(type->name());
  try {
    throw;
  } catch (const ThrowsError& e) {
    error.message = e.error().message;
    error.cause = std::make_shared<const Error>(e.error());
  } catch (const std::exception& e) {
    error.message = e.what();
  } catch (const char* text) {
    error.message = text;
  } catch (const std::string& text) {
    error.message = text;
  } catch (...) {
  }
  error.backtrace = describe_frames({last_throw.frames, static_cast<std::size_t>(last_throw.count)});
  last_throw.count = 0;
  return error;
}

}  // namespace troupe

extern "C" {

__attribute__((noreturn, visibility("default"))) void __cxa_throw(void* thrown, void* type,
                                                                  void (*destroy)(void*)) {
  using Throw = void (*)(void*, void*, void (*)(void*));
  static const Throw next = reinterpret_cast<Throw>(::dlsym(RTLD_NEXT, "__cxa_throw"));
  if (troupe::current().cell != nullptr) {
    troupe::last_throw.count = ::backtrace(troupe::last_throw.frames, troupe::kMostFrames);
  }
  next(thrown, type, destroy);
  std::abort();
}
}
