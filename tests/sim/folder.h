// Where simulated agents keep logs and sockets: one temporary folder for the program, removed at its end. The
// product's errors are logged there too.
#pragma once

#include <string>

namespace troupe::sim {

const std::string& sim_folder();

}  // namespace troupe::sim
