// Where the cluster is and the secret that opens it. Any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/auth/token.h"
#include "core/control/address.h"

namespace troupe {

struct ClusterLocation {
  std::vector<Address> addresses;  // of the head and its standbys, never empty
  Token token;
  std::string source;  // for people: "--head", "TROUPE_HEAD" or the cluster file's path

  std::string text() const;  // the addresses, joined with commas
};

// The addresses (joined with commas): `head` if given, else $TROUPE_HEAD, else the cluster file. The token:
// $TROUPE_TOKEN, else the file $TROUPE_HOME/token. not_found when nothing names a cluster, unavailable
// when its head has ended; every error says what to do next.
Result<ClusterLocation> find_cluster(const std::optional<std::string>& head = {});

// $TROUPE_TOKEN, else the file $TROUPE_HOME/token, which is created when `create` is set.
Result<Token> cluster_token(bool create);

}  // namespace troupe
