// Collectives on the CPU's memory. Large ones are rings and chains of pieces, with two pieces under way while
// one is combined, as the order of the ranks gives it: results are the same bits in every run.
#pragma once

#include <functional>
#include <memory>

#include "runtime/group/data_path.h"
#include "runtime/group/mesh.h"

namespace troupe {

std::unique_ptr<DataPath> make_host_path(Mesh& mesh, int rank, int size);

// The result of an operation whose elements all came with the check: no message is needed.
void finish_small(const Plan& plan, int rank, const std::vector<Contribution>& all);

}  // namespace troupe
