// The cluster token: a secret of 32 random bytes that every process of a cluster holds and proves to hold
// (proof.h). Written as 64 hexadecimal digits, in a file that only its owner can read.
//
// A Token is a value; its memory is wiped when it is destroyed. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace troupe {

class Token {
 public:
  static constexpr std::size_t kBytes = 32;

  static Result<Token> random();
  static Result<Token> parse(
      std::string_view hex);  // blanks around it are ignored; invalid_argument otherwise

  Token(const Token&) = default;
  Token& operator=(const Token&) = default;
  ~Token();

  std::string hex() const;
  std::span<const std::uint8_t, kBytes> bytes() const { return bytes_; }
  bool operator==(const Token& other) const;  // in constant time

 private:
  Token() = default;

  std::array<std::uint8_t, kBytes> bytes_{};
};

// not_found when there is no file; invalid_argument when it is not a token, or others than its owner (this
// user or root) can read it: a token that was readable is to be replaced, not just hidden.
Result<Token> load_token(const std::string& path);

// Creates the file with mode 0600 and its whole content at once. already_exists when there is one.
Result<void> store_token(const std::string& path, const Token& token);

// Loads the token, or makes one; processes that do so at the same time all get the same one.
Result<Token> load_or_create_token(const std::string& path);

}  // namespace troupe
