// Which processes can reach each other without a network. Any thread.
#pragma once

#include <string>

namespace troupe {

// Made of the kernel's boot id and the network and mount namespaces: processes with equal ids may use Unix
// sockets and shared memory among themselves, others need TCP.
std::string host_id();

}  // namespace troupe
