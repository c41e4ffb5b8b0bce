// The base of all exceptions of the public API: an exception that carries an Error.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "core/base/error.h"

namespace troupe {

class ThrowsError : public std::exception {
 public:
  explicit ThrowsError(Error error)
      : error_(std::make_shared<const Error>(std::move(error))),
        text_(std::make_shared<const std::string>(error_->describe())) {}
  const Error& error() const { return *error_; }
  ErrorKind kind() const { return error_->kind; }
  const char* what() const noexcept override { return text_->c_str(); }

 private:
  // Shared, so that copying an exception cannot throw.
  std::shared_ptr<const Error> error_;
  std::shared_ptr<const std::string> text_;
};

// The Error of an exception while a message is encoded or decoded: its own if it carries one.
inline Error codec_error(const std::exception& e, ErrorKind otherwise, const char* what) {
  if (auto* typed = dynamic_cast<const ThrowsError*>(&e)) return typed->error();
  return Error(otherwise, std::string(what) + ": " + e.what());
}

}  // namespace troupe
