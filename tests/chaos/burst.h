// 10,000 calls at once to one actor whose process is killed in their middle.
#pragma once

#include <string>

#include "ledger.h"

namespace chaos {

Sums burst(const std::string& prefix, bool retries);

}  // namespace chaos
