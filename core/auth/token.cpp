#include "core/auth/token.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/auth/random.h"
#include "core/os/fd.h"

namespace troupe {

namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  std::size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

Error bad_file(const std::string& path, const std::string& what) {
  return Error(ErrorKind::invalid_argument, "the token file " + path + " " + what);
}

Result<void> write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR) return system_error(errno, "writing the token file " + path);
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
  if (::fsync(fd) != 0) return system_error(errno, "writing the token file " + path);
  return {};
}

}  // namespace

Token::~Token() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

bool Token::operator==(const Token& other) const {
  return CRYPTO_memcmp(bytes_.data(), other.bytes_.data(), kBytes) == 0;
}

Result<Token> Token::random() {
  Token token;
  Result<void> filled = random_bytes(token.bytes_);
  if (!filled) return filled.error();
  return token;
}

Result<Token> Token::parse(std::string_view hex) {
  hex = trimmed(hex);
  Token token;
  bool right = hex.size() == 2 * kBytes;
  for (std::size_t i = 0; right && i < kBytes; ++i) {
    int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
    right = high >= 0 && low >= 0;
    token.bytes_[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  // The text itself is not shown: it may be the secret with a slip of the pen.
  if (!right)
    return Error(ErrorKind::invalid_argument, "a cluster token has 64 hexadecimal digits; this one does not");
  return token;
}

std::string Token::hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::uint8_t byte : bytes_) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Result<Token> load_token(const std::string& path) {
  // Non-blocking, so that a pipe in the file's place does not hang us.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd && errno == ENOENT) {
    return Error(ErrorKind::not_found,
                 "there is no token file " + path + "; copy it from the machine of the cluster's head");
  }
  if (!fd) return system_error(errno, "opening the token file " + path);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return system_error(errno, "the token file " + path);
  if (!S_ISREG(status.st_mode)) return bad_file(path, "is not a regular file; remove it");
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    return bad_file(path, "belongs to another user; remove it and copy the token anew");
  }
  if ((status.st_mode & 077) != 0) {
    return bad_file(
        path,
        "can be read by others; if that was an accident, remove it and start the cluster anew to get a "
        "new token, or run: chmod 600 " +
            path);
  }
  char text[256];
  std::size_t size = 0;
  while (size < sizeof text) {
    ssize_t n = ::read(fd.get(), text + size, sizeof text - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(errno, "reading the token file " + path);
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  Result<Token> token = Token::parse({text, size});
  OPENSSL_cleanse(text, sizeof text);
  if (!token)
    return bad_file(path, "does not hold a token of 64 hexadecimal digits; remove it or copy it again");
  return token;
}

Result<void> store_token(const std::string& path, const Token& token) {
  std::string temporary = path + ".XXXXXX";
  UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));  // mode 0600
  if (!fd) return system_error(errno, "creating the token file " + path);
  Result<void> result = write_all(fd.get(), token.hex() + "\n", path);
  // A link appears with all its content or not at all, and never replaces another file.
  if (result && ::link(temporary.c_str(), path.c_str()) != 0) {
    result = errno == EEXIST ? Error(ErrorKind::already_exists,
                                     "the token file " + path + " exists; remove it to make a new one")
                             : system_error(errno, "creating the token file " + path);
  }
  ::unlink(temporary.c_str());
  return result;
}

Result<Token> load_or_create_token(const std::string& path) {
  Result<Token> token = load_token(path);
  if (token || token.error().kind != ErrorKind::not_found) return token;
  token = Token::random();
  if (!token) return token;
  Result<void> stored = store_token(path, *token);
  if (stored) return token;
  if (stored.error().kind == ErrorKind::already_exists) return load_token(path);
  return stored.error();
}

}  // namespace troupe
