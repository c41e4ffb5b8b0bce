// What a driver tells of itself when it opens a job, so that agents can start its workers.
#pragma once

#include <string>
#include <vector>

#include "core/protocol/cluster.capnp.h"
#include "runtime/process/link_setup.h"

namespace troupe {

void write_job_info(wire::JobInfo::Builder to, const std::string& program,
                    const std::vector<std::string>& arguments, const LinkIdentity& self);

}  // namespace troupe
