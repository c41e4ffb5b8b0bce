#include "core/config/find_cluster.h"

#include <cstdlib>
#include <sstream>

#include "core/config/cluster_file.h"
#include "core/config/home.h"

namespace troupe {
namespace {

constexpr const char* kStart = "start one with `troupe head`, or run the program with `troupe run`";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

struct Named {
  std::string address, source;
};

Result<Named> named_cluster(const std::optional<std::string>& head) {
  if (head) return Named{*head, "--head"};
  if (std::string given = variable("TROUPE_HEAD"); !given.empty()) return Named{given, "TROUPE_HEAD"};
  auto folder = home();
  if (!folder) return folder.error();
  auto file = read_cluster_file(*folder);
  if (!file && file.error().kind == ErrorKind::not_found) {
    return Error(ErrorKind::not_found, std::string("no cluster: ") + kStart);
  }
  if (!file) return file.error();
  if (!file->head_may_run()) {
    return Error(ErrorKind::unavailable, "no cluster: its head (process " + std::to_string(file->head_pid) +
                                             ") has ended; " + kStart);
  }
  return Named{file->address, *folder + "/cluster"};
}

}  // namespace

Result<Token> cluster_token(bool create) {
  if (std::string hex = variable("TROUPE_TOKEN"); !hex.empty()) {
    auto token = Token::parse(hex);
    if (!token) {
      return Error(
          ErrorKind::invalid_argument,
          "TROUPE_TOKEN is not a token: it needs the 64 hexadecimal digits of the head's token file");
    }
    return token;
  }
  auto folder = home();
  if (!folder) return folder.error();
  std::string path = *folder + "/token";
  auto token = create ? load_or_create_token(path) : load_token(path);
  if (!token && token.error().kind == ErrorKind::not_found) {
    return Error(
        ErrorKind::unauthenticated,
        "no token: copy the file " + path + " from the head's machine, or set TROUPE_TOKEN to its content");
  }
  return token;
}

std::string ClusterLocation::text() const {
  std::string all;
  for (const Address& address : addresses) all += (all.empty() ? "" : ",") + address.text();
  return all;
}

Result<ClusterLocation> find_cluster(const std::optional<std::string>& head) {
  auto named = named_cluster(head);
  if (!named) return named.error();
  std::vector<Address> addresses;
  std::istringstream parts(named->address);
  for (std::string part; std::getline(parts, part, ',') || addresses.empty();) {
    auto address = parse_address(part);
    if (!address) {
      Error error = address.error();
      error.message = named->source + ": " + error.message;
      return error;
    }
    addresses.push_back(std::move(*address));
  }
  auto token = cluster_token(false);
  if (!token) return token.error();
  return ClusterLocation{std::move(addresses), std::move(*token), std::move(named->source)};
}

}  // namespace troupe
