#include "gcs/store/redis_url.h"

#include <charconv>

namespace troupe::gcs {
namespace {

constexpr const char* kForms = "; write redis://[:password@]host[:port][/db] or unix:///path/to/redis.sock";

Error wrong(const std::string& what) {
  return Error(ErrorKind::invalid_argument, "the Redis URL " + what + kForms);
}

bool number(const std::string& text, int least, int most, int& out) {
  auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), out);
  return bad == std::errc{} && end == text.data() + text.size() && out >= least && out <= most;
}

}  // namespace

std::string RedisAddress::shown() const {
  if (!unix_path.empty()) return "unix://" + unix_path;
  bool v6 = host.find(':') != std::string::npos;
  std::string text = "redis://" + (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
  return db == 0 ? text : text + "/" + std::to_string(db);
}

Result<RedisAddress> parse_redis_url(const std::string& url) {
  RedisAddress address;
  if (url.rfind("unix://", 0) == 0) {
    address.unix_path = url.substr(7);
    if (address.unix_path.empty() || address.unix_path[0] != '/') return wrong("needs an absolute path");
    if (address.unix_path.size() > 107) return wrong("has a path that is too long for a socket");
    return address;
  }
  if (url.rfind("rediss://", 0) == 0) {
    return Error(ErrorKind::invalid_argument,
                 "rediss:// (TLS) is not supported; use redis:// through a local TLS proxy such as stunnel");
  }
  if (url.rfind("redis://", 0) != 0) return wrong("has an unknown scheme");
  std::string rest = url.substr(8);
  if (std::size_t at = rest.rfind('@'); at != std::string::npos) {
    std::string user = rest.substr(0, at);
    rest = rest.substr(at + 1);
    if (user.empty() || user[0] != ':') return wrong("may not name a user, only :password@");
    address.password = user.substr(1);
  }
  if (std::size_t slash = rest.find('/'); slash != std::string::npos) {
    std::string db = rest.substr(slash + 1);
    rest = rest.substr(0, slash);
    if (!db.empty() && !number(db, 0, 65535, address.db)) return wrong("has a bad database number");
  }
  std::string port;
  if (!rest.empty() && rest[0] == '[') {
    std::size_t close = rest.find(']');
    if (close == std::string::npos) return wrong("has a bad IPv6 address");
    address.host = rest.substr(1, close - 1);
    std::string tail = rest.substr(close + 1);
    if (!tail.empty() && tail[0] != ':') return wrong("has a bad port");
    if (!tail.empty()) port = tail.substr(1);
    if (!tail.empty() && port.empty()) return wrong("has a bad port");
  } else {
    std::size_t colon = rest.find(':');
    address.host = rest.substr(0, colon);
    if (colon != std::string::npos) {
      port = rest.substr(colon + 1);
      if (port.empty()) return wrong("has a bad port");
    }
  }
  if (address.host.empty()) return wrong("names no host");
  int value = address.port;
  if (!port.empty() && !number(port, 1, 65535, value)) return wrong("has a bad port");
  address.port = static_cast<std::uint16_t>(value);
  return address;
}

}  // namespace troupe::gcs
