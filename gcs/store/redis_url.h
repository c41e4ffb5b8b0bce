// Where a Redis is: redis://[:password@]host[:port][/db] or unix:///path.
#pragma once

#include <string>

#include "core/base/error.h"

namespace troupe::gcs {

struct RedisAddress {
  std::string unix_path;  // set, or:
  std::string host;
  std::uint16_t port = 6379;
  std::string password;
  int db = 0;

  std::string shown() const;  // without the password
};

Result<RedisAddress> parse_redis_url(const std::string& url);

}  // namespace troupe::gcs
