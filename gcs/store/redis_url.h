// Where a Redis is:
//   redis://[[user]:password@]host[:port][/db]
//   unix:///path
//   redis+sentinel://[[user]:password@]host[:port][,host[:port]…]/master-name[/db]
// each with ?replicas=N, the last one also with ?sentinel_password=…
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"

namespace troupe::gcs {

struct RedisAddress {
  struct Sentinel {
    std::string host;
    std::uint16_t port = 26379;
  };

  std::string unix_path;  // set, or:
  std::string host;
  std::uint16_t port = 6379;
  std::string user, password;
  int db = 0;
  int replicas = 0;  // that must hold a write before it is acknowledged

  // Set: they say where it is, and host and port stand for nothing.
  std::vector<Sentinel> sentinels;
  std::string master, sentinel_password;

  std::string shown() const;                  // without passwords
  std::vector<std::string> greeting() const;  // the AUTH command; empty without a password
};

Result<RedisAddress> parse_redis_url(const std::string& url);

}  // namespace troupe::gcs
