#include "gcs/store/redis_url.h"

#include <charconv>
#include <sstream>

namespace troupe::gcs {
namespace {

constexpr const char* kForms =
    "; write redis://[:password@]host[:port][/db], unix:///path/to/redis.sock, or "
    "redis+sentinel://[:password@]host[:port][,host[:port]...]/master-name";
constexpr std::size_t kMostSentinels = 32;

Error wrong(const std::string& what) {
  return Error(ErrorKind::invalid_argument, "the Redis URL " + what + kForms);
}

bool number(const std::string& text, int least, int most, int& out) {
  auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), out);
  return bad == std::errc{} && end == text.data() + text.size() && out >= least && out <= most;
}

std::string host_and_port(const std::string& host, std::uint16_t port) {
  bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<void> read_host(const std::string& text, std::string& host, std::uint16_t& to) {
  std::string port;
  if (!text.empty() && text[0] == '[') {
    std::size_t close = text.find(']');
    if (close == std::string::npos) return wrong("has a bad IPv6 address");
    host = text.substr(1, close - 1);
    std::string tail = text.substr(close + 1);
    if (!tail.empty() && tail[0] != ':') return wrong("has a bad port");
    if (!tail.empty()) port = tail.substr(1);
    if (!tail.empty() && port.empty()) return wrong("has a bad port");
  } else {
    std::size_t colon = text.find(':');
    host = text.substr(0, colon);
    if (colon != std::string::npos) {
      port = text.substr(colon + 1);
      if (port.empty()) return wrong("has a bad port");
    }
  }
  if (host.empty()) return wrong("names no host");
  int value = to;
  if (!port.empty() && !number(port, 1, 65535, value)) return wrong("has a bad port");
  to = static_cast<std::uint16_t>(value);
  return {};
}

// Takes what stands after the last `mark` off the text; empty when there is none.
std::string cut_after(std::string& text, char mark) {
  std::size_t at = text.rfind(mark);
  if (at == std::string::npos) return "";
  std::string tail = text.substr(at + 1);
  text.resize(at);
  return tail;
}

Result<void> read_options(const std::string& query, RedisAddress& address) {
  std::istringstream all(query);
  for (std::string one; std::getline(all, one, '&');) {
    std::size_t equals = one.find('=');
    std::string name = one.substr(0, equals), value = equals == one.npos ? "" : one.substr(equals + 1);
    if (name == "replicas") {
      if (!number(value, 0, 100, address.replicas)) return wrong("has a bad number of replicas");
    } else if (name == "sentinel_password" && !address.sentinels.empty()) {
      address.sentinel_password = value;
    } else {
      return wrong("has an unknown option " + name);
    }
  }
  return {};
}

Result<void> read_db(const std::string& text, RedisAddress& address) {
  if (!text.empty() && !number(text, 0, 65535, address.db)) return wrong("has a bad database number");
  return {};
}

Result<void> read_sentinels(const std::string& hosts, std::string path, RedisAddress& address) {
  std::istringstream all(hosts);
  for (std::string one; std::getline(all, one, ',');) {
    RedisAddress::Sentinel sentinel;
    if (auto read = read_host(one, sentinel.host, sentinel.port); !read) return read;
    address.sentinels.push_back(sentinel);
  }
  if (address.sentinels.empty()) return wrong("names no sentinel");
  if (address.sentinels.size() > kMostSentinels) return wrong("names too many sentinels");
  std::size_t slash = path.find('/');
  address.master = path.substr(0, slash);
  if (address.master.empty()) return wrong("does not name the master, as sentinel.conf does");
  address.replicas = 1;
  return read_db(slash == path.npos ? "" : path.substr(slash + 1), address);
}

}  // namespace

std::string RedisAddress::shown() const {
  if (!unix_path.empty()) return "unix://" + unix_path;
  std::string text;
  if (sentinels.empty()) {
    text = "redis://" + host_and_port(host, port);
  } else {
    text = "redis+sentinel://";
    for (const Sentinel& one : sentinels)
      text += (&one == &sentinels.front() ? "" : ",") + host_and_port(one.host, one.port);
    text += "/" + master;
  }
  return db == 0 ? text : text + "/" + std::to_string(db);
}

std::vector<std::string> RedisAddress::greeting() const {
  if (password.empty()) return {};
  if (user.empty()) return {"AUTH", password};
  return {"AUTH", user, password};
}

Result<RedisAddress> parse_redis_url(const std::string& url) {
  RedisAddress address;
  if (url.rfind("rediss://", 0) == 0) {
    return Error(ErrorKind::invalid_argument,
                 "rediss:// (TLS) is not supported; use redis:// through a local TLS proxy such as stunnel");
  }
  bool local = url.rfind("unix://", 0) == 0, sentinel = url.rfind("redis+sentinel://", 0) == 0;
  if (!local && !sentinel && url.rfind("redis://", 0) != 0) return wrong("has an unknown scheme");
  std::string rest = url.substr(url.find("//") + 2), options;
  if (std::size_t at = rest.rfind('@'); !local && at != std::string::npos) {
    std::string who = rest.substr(0, at);
    rest = rest.substr(at + 1);
    std::size_t colon = who.find(':');
    if (colon == std::string::npos || colon + 1 == who.size()) return wrong("names no password before the @");
    address.user = who.substr(0, colon);
    address.password = who.substr(colon + 1);
  }
  if (rest.find('?') != std::string::npos) options = cut_after(rest, '?');
  if (local) {
    address.unix_path = rest;
    if (rest.empty() || rest[0] != '/') return wrong("needs an absolute path");
    if (rest.size() > 107) return wrong("has a path that is too long for a socket");
  } else {
    std::size_t slash = rest.find('/');
    std::string hosts = rest.substr(0, slash), path = slash == rest.npos ? "" : rest.substr(slash + 1);
    auto read = sentinel ? read_sentinels(hosts, path, address) : read_db(path, address);
    if (read && !sentinel) read = read_host(hosts, address.host, address.port);
    if (!read) return read.error();
  }
  if (auto read = read_options(options, address); !read) return read.error();
  return address;
}

}  // namespace troupe::gcs
