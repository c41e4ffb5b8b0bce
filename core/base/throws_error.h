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

// In a handler: what the exception says.
std::string exception_text();

// In a handler: the Error of an exception while a message is encoded or decoded, its own if it carries one.
// User code runs there, and may throw anything.
Error codec_error(ErrorKind otherwise, const char* what);

}  // namespace troupe
